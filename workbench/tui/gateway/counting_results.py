"""The results that count: the newest of each case, but for cases of which an earlier verdict holds again."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from workbench.model.keys import CaseKey, JobKey
from workbench.model.results import CaseResult
from workbench.store.history import History, StoredScores
from workbench.tui.state.board import ResultPlace

EarlierVerdicts = Mapping[JobKey, ResultPlace]
"""Where the results of such cases are stored: see `Board.earlier_verdicts`."""


def counting_results(
    history: History, cases: Collection[CaseKey], earlier: EarlierVerdicts
) -> dict[CaseKey, list[CaseResult]]:
    """The results that count of these cases, by repeat, in the order of the cases. Raises StoreError."""
    found = {case: results for case in cases if (results := earlier_results(history, case, earlier))}
    found |= history.latest_judged_results([case for case in cases if case not in found])
    return {case: found[case] for case in cases if case in found}


def earlier_results(history: History, case: CaseKey, earlier: EarlierVerdicts) -> list[CaseResult]:
    """The earlier results of a case that count, by repeat; nothing if its newest do. Raises StoreError."""
    found = []
    for job, place in sorted(earlier.items(), key=lambda item: item[0].repeat):
        result = history.result(*place) if job.case == case else None
        if result is not None:
            found.append(result.model_copy(update={"case": job.case, "repeat": job.repeat}))
    return found


def earlier_scores(history: History, earlier: EarlierVerdicts) -> Iterator[StoredScores]:
    """The metrics of earlier results that count. Raises StoreError."""
    for job, place in earlier.items():
        scores = history.scores_of(*place)
        if scores is not None:
            yield scores._replace(job=scores.job._replace(key=job))
