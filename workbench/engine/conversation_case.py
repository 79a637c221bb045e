"""A conversation of a simulated user as a fixed case: the same words, and what the agent did as what is expected."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import count
from pathlib import Path

from workbench.engine.case import DEFAULT_USER
from workbench.engine.chat_case import NewCase, write_case
from workbench.model.evalset import EvalCase, SessionInput
from workbench.model.keys import CaseKey
from workbench.model.results import CaseResult
from workbench.store.documents import EvalSetDocument, new_eval_set
from workbench.store.errors import StoreError
from workbench.store.names import EVAL_SET_SUFFIX


def can_be_kept(result: CaseResult) -> bool:
    """Whether there is a conversation to keep: one that came to its end, or to its limit."""
    simulation = result.execution.simulation
    return simulation is not None and simulation.end is not None and result.execution.failure is None


def fixed_case(result: CaseResult, case: EvalCase, *, taken: Collection[str]) -> NewCase:
    """The conversation of a scenario as a case of its own, under an id that is not `taken`."""
    numbered = (f"{case.eval_id}_played{'' if number == 1 else f'_{number}'}" for number in count(1))
    given = case.session_input or SessionInput()
    session_input = SessionInput(
        app_name=given.app_name or result.case.target,
        user_id=given.user_id or DEFAULT_USER,
        state=dict(given.state),
    )
    eval_id = next(name for name in numbered if name not in taken)
    return NewCase(eval_id=eval_id, turns=result.execution.turns, session_input=session_input)


def keep_conversations(path: Path, results: Sequence[CaseResult], cases: Mapping[CaseKey, EvalCase]) -> Sequence[str]:
    """Add the conversations that can be kept to an eval set, which is made where there is none; gives the new ids.

    `cases` has the scenarios. Raises StoreError; the set is then as it was.
    """
    keepable = [result for result in results if can_be_kept(result)]
    if not keepable:
        return ()
    if path.exists():
        document = EvalSetDocument.open(path)
    elif path.name.endswith(EVAL_SET_SUFFIX):
        document = new_eval_set(path, path.name.removesuffix(EVAL_SET_SUFFIX))
    else:
        raise StoreError(
            path, found="no such file", expected=f"an eval set, or the name of a new one: *{EVAL_SET_SUFFIX}"
        )
    kept: list[str] = []
    for result in keepable:
        taken = {entry.eval_id for entry in document.entries}
        new = fixed_case(result, cases[result.case], taken=taken)
        write_case(document, new)
        kept.append(new.eval_id)
    document.save()
    return kept
