"""Which cases an order of the user means: to run, to move, to delete."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from workbench.engine.plan import Selection
from workbench.model.keys import CaseKey
from workbench.tui.state.browser.browser import Browser
from workbench.tui.state.browser.listed import ListedSet, Place


def wanted_at(browser: Browser, place: Place | None) -> Sequence[Selection]:
    """The marked cases; where none are, the case of this place, or what is listed of its set or target.

    Sets that cannot be read are part of it: they may be whole again, and where not, a plan says so.
    """
    if len(browser.marks):
        return selections_of(browser.marks, browser)
    if place is None or not place[0]:
        return []
    target, eval_set, case = place
    if case is not None:
        return selections_of([case], browser)
    sets = (listed for listed in browser.files if listed.target == target)
    return _listed(browser, [listed for listed in sets if eval_set in ("", listed.relative)])


def wanted_all(browser: Browser) -> Sequence[Selection]:
    """Everything that is listed and has an agent, marked or not."""
    return _listed(browser, [listed for listed in browser.files if listed.target])


def wanted_of(browser: Browser, keep: Callable[[CaseKey], bool]) -> Sequence[Selection]:
    """The cases that `keep` keeps of the marked ones; where none are marked, of the listed ones."""
    if len(browser.marks):
        return selections_of((key for key in browser.marks if keep(key)), browser)
    listed = (row.case for row in browser.listed_case_rows() if row.case is not None and keep(row.case))
    return selections_of(listed, browser)


def _listed(browser: Browser, sets: Iterable[ListedSet]) -> Sequence[Selection]:
    """The sets as a whole; where a filter lists only some of their cases, these."""
    if not browser.is_filtered:
        return [Selection(eval_set=listed.relative) for listed in sets]
    cases = (row.case for listed in sets for row in browser.cases_in(listed) if row.case is not None)
    return selections_of(cases, browser)


def selections_of(keys: Iterable[CaseKey], browser: Browser) -> Sequence[Selection]:
    """These cases, each once, but for those that have no agent, or are only kept of a run."""
    by_set: dict[str, dict[str, None]] = {}
    for key in keys:
        if key.target and not browser.is_kept(key.target, key.eval_set):
            by_set.setdefault(key.eval_set, {})[key.eval_id] = None
    return [Selection(eval_set=eval_set, cases=tuple(ids)) for eval_set, ids in by_set.items()]
