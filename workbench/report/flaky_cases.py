"""Flaky cases: cases whose verdict changed while nothing that they use changed, and where their executions part.

The samples of a case are its repeats and its earlier executions on the same input, criteria, code, files and variables
as the newest one. Replayed executions are no samples: they repeat one.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, NamedTuple

from workbench.model.evalset import InvocationEvents
from workbench.model.identity import CaseKey, DependencyKind
from workbench.model.results import CaseResult, CaseStatus, TurnResult
from workbench.model.text import mask_named_secrets, one_line, pluralise, redact
from workbench.model.trace import CallEvent, GroundingEvent, ResponseEvent, TextEvent, TurnEvent, iterate_events
from workbench.report.report_formats import SCHEMA_VERSION
from workbench.report.significance import Interval, format_interval, wilson_interval
from workbench.store.history.history import History
from workbench.store.history.history_queries import StoredVerdict

_LONGEST = 200  # characters of a step in text
_BEFORE = 60  # characters before the first difference of two long steps
_MOST_READ = 20  # executions of which the newest with a trace is looked for


class Divergence(NamedTuple):
    """The first step in which an execution that passed and one that failed differ.

    `turn` counts from 0. `model_call` is the call of the model, counted from 1 in its turn, whose reply is the step;
    None if it is no reply of a model. `what` names the step, `passed` and `failed` are the step in each execution.
    """

    turn: int
    model_call: int | None
    what: str
    passed: str
    failed: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FlakyCase:
    """A flaky case. `passed` of its `samples` passed; they come from `runs` runs.

    `divergence` is None if the compared executions do not differ; `disagreeing` are then the criteria that judged them
    differently. Both are empty if nothing was compared, because the traces are deleted.
    """

    case: CaseKey
    passed: int
    samples: int
    runs: Sequence[str]
    divergence: Divergence | None
    disagreeing: Sequence[str]

    @property
    def probability(self) -> float:
        """The share of samples that passed."""
        return self.passed / self.samples

    @property
    def interval(self) -> Interval:
        """The 95 % interval of the probability to pass."""
        return wilson_interval(self.passed, self.samples)


def find_flaky_cases(history: History) -> list[FlakyCase]:
    """Find the flaky cases, those whose verdict is least certain first. Raises StoreError."""
    found = []
    verdicts = history.list_mixed_verdicts()
    rows = _DependencyRows(history)
    by_case: dict[CaseKey, list[StoredVerdict]] = {}
    for each in verdicts:
        by_case.setdefault(each.job.case, []).append(each)
    for case, of_case in by_case.items():
        newest = history.get_newest_verdict(case)
        samples = [] if newest is None else _select_samples(of_case, newest, rows)
        passed = [each for each in samples if each.job.status is CaseStatus.PASSED]
        if 0 < len(passed) < len(samples):
            found.append(_describe(history, case, passed, samples))
    return sorted(found, key=lambda flaky: (abs(flaky.probability - 0.5), str(flaky.case)))


def _select_samples(
    newest_first: Sequence[StoredVerdict], newest: StoredVerdict, rows: _DependencyRows
) -> list[StoredVerdict]:
    """Return the verdicts on the same input, criteria and state of the project as the newest job, also an ERROR."""
    samples: dict[tuple[int | None, float], StoredVerdict] = {}
    for each in newest_first:
        if each.job.hashes == newest.job.hashes and rows.are_equal(each, newest):
            # A resumed run has copies of results.
            samples.setdefault((each.execution, each.job.finished_at.timestamp()), each)
    return list(samples.values())


class _DependencyRows:
    """The dependencies of verdicts, to find out whether something changed between them."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._rows: dict[int, Mapping[tuple[str, str], str]] = {}
        self._known: dict[tuple[int, int], bool] = {}

    def are_equal(self, one: StoredVerdict, other: StoredVerdict) -> bool:
        """Return True if nothing that both used differs.

        What cannot be followed may have changed: it counts as equal within one run only, although a run can go on after
        a change.
        """
        pairs = [
            (one.dependencies, other.dependencies),
            (one.scoring_dependencies, other.scoring_dependencies),
        ]
        is_known = one.dependencies is not None and other.dependencies is not None
        if (is_known and not (one.is_certain and other.is_certain)) or not all(self._agree(*pair) for pair in pairs):
            return False
        return one.job.run_id == other.job.run_id or (is_known and not any(self._is_opaque(*pair) for pair in pairs))

    def _agree(self, one: int | None, other: int | None) -> bool:
        if one is None or other is None or one == other:
            return True
        if (one, other) not in self._known:
            left, right = self._read(one), self._read(other)
            self._known[one, other] = all(right.get(key, state) == state for key, state in left.items())
        return self._known[one, other]

    def _is_opaque(self, *numbers: int | None) -> bool:
        return any(
            kind == DependencyKind.OPAQUE for number in numbers if number is not None for kind, _ in self._read(number)
        )

    def _read(self, number: int) -> Mapping[tuple[str, str], str]:
        if number not in self._rows:
            self._rows[number] = {
                (row.kind, row.key): row.fingerprint for _, row in self._history.dependencies([number])
            }
        return self._rows[number]


def _describe(
    history: History, case: CaseKey, passed: Sequence[StoredVerdict], samples: Sequence[StoredVerdict]
) -> FlakyCase:
    failed = [each for each in samples if each.job.status is CaseStatus.FAILED]
    executions = {each.execution: each for each in passed}
    same = next((each for each in failed if each.execution in executions), None)
    if same is not None:
        one, other = _read_result(history, executions[same.execution]), _read_result(history, same)
        divergence = None
    else:
        one, other = _find_stored(history, passed), _find_stored(history, failed)
        divergence = None if one is None or other is None else find_divergence(one, other)
    is_judged_only = one is not None and other is not None and divergence is None
    return FlakyCase(
        case=case,
        passed=len(passed),
        samples=len(samples),
        runs=list(dict.fromkeys(each.job.run_id for each in samples)),
        divergence=divergence,
        disagreeing=_list_disagreeing(one, other) if is_judged_only and one and other else (),
    )


def _read_result(history: History, verdict: StoredVerdict) -> CaseResult | None:
    return history.result(verdict.job.run_id, verdict.job.key)


def _find_stored(history: History, newest_first: Sequence[StoredVerdict]) -> CaseResult | None:
    """Return the newest result whose trace is still stored: retention keeps the last few of a case."""
    results = (_read_result(history, verdict) for verdict in newest_first[:_MOST_READ])
    return next((result for result in results if result is not None and result.execution.turns), None)


def _list_disagreeing(one: CaseResult, other: CaseResult) -> Sequence[str]:
    statuses = {metric.name: metric.status for metric in one.metrics}
    return [metric.name for metric in other.metrics if statuses.get(metric.name, metric.status) is not metric.status]


# The first step in which two executions differ.


class _Step(NamedTuple):
    """One step of a turn. `identity` decides whether two steps are equal; ids of calls are left out."""

    what: str
    model_call: int | None
    identity: tuple[Any, ...]
    text: str


def find_divergence(passed: CaseResult, failed: CaseResult) -> Divergence | None:
    """Find the first step in which two executions of a case differ; None if they are equal."""
    turns = zip_longest(passed.execution.turns, failed.execution.turns)
    for number, (one, other) in enumerate(turns):
        pairs = zip_longest(_list_steps(one), _list_steps(other))
        for left, right in pairs:
            if left is None or right is None or left.identity != right.identity:
                step = left or right
                assert step is not None
                nothing = "nothing more in this turn"
                return Divergence(
                    turn=number,
                    model_call=step.model_call,
                    what=step.what if left is None or right is None or left.what == right.what else "the next step",
                    passed=nothing if left is None else left.text,
                    failed=nothing if right is None else right.text,
                )
    return None


def _list_steps(turn: TurnResult | None) -> Iterator[_Step]:
    if turn is None:
        return
    invocation = turn.invocation
    prompt = invocation.user_content.text(thoughts=False)
    yield _Step("the message of the user", None, (prompt,), prompt)
    # The older form of a recording does not say which calls a model made in one reply.
    has_models = bool(turn.inference_calls) and isinstance(invocation.intermediate_data, InvocationEvents)
    model_call = 1
    is_after_response = False
    for event in iterate_events(invocation):
        if isinstance(event, ResponseEvent):
            is_after_response = True
        elif is_after_response:
            model_call += 1
            is_after_response = False
        yield _make_step(event, model_call if has_models else None)
    answer = "" if invocation.final_response is None else invocation.final_response.text(thoughts=False)
    yield _Step("the answer", model_call + is_after_response if has_models else None, (answer,), answer)


def _make_step(event: TurnEvent, model_call: int | None) -> _Step:
    if isinstance(event, CallEvent):
        name, args = event.call.name or "", event.call.args or {}
        return _Step(f"the call of {name}", model_call, (name, args), f"{name}({_format(args)})")
    if isinstance(event, ResponseEvent):
        name, response = event.response.name or "", event.response.response or {}
        return _Step(f"the result of {name}", None, (name, response), f"{name} → {_format(response)}")
    if isinstance(event, TextEvent):
        return _Step("a text before the answer", model_call, (event.author, event.text), event.text)
    assert isinstance(event, GroundingEvent)
    return _Step("what the model searched", model_call, (event.author, event.metadata), _format(event.metadata))


def _format(value: Mapping[str, Any]) -> str:
    return json.dumps(mask_named_secrets(value), ensure_ascii=False, default=repr, sort_keys=True)


# Flaky cases as text and as a versioned JSON document.


def flaky_lines(found: Sequence[FlakyCase], *, repeated: int) -> Iterator[str]:
    """Yield the flaky cases as text. `repeated` cases have more than one verdict, so that they could be flaky."""
    if not found:
        cases = pluralise(repeated, "case")
        yield f"no flaky case among {cases} with more than one verdict on the same input and criteria"
        return
    counts = Counter(str(flaky.case) for flaky in found)
    name_of = {
        flaky.case: f"{flaky.case}, agent {flaky.case.target}" if counts[str(flaky.case)] > 1 else str(flaky.case)
        for flaky in found
    }
    yield f"{pluralise(len(found), 'flaky case')}: the verdict changed, and nothing that the case uses did"
    for flaky in found:
        yield ""
        yield (
            f"{_safe(name_of[flaky.case])}: {flaky.passed} of {flaky.samples} passed, "
            f"{flaky.probability:.0%}{format_interval(flaky.interval, '.0%')}, in {pluralise(len(flaky.runs), 'run')}"
        )
        if flaky.divergence is not None:
            yield from _divergence_lines(flaky.divergence)
        elif flaky.disagreeing:
            names = ", ".join(map(_safe, flaky.disagreeing))
            yield f"  the executions are equal; they were judged differently: {names}"
        else:
            yield "  where they differ is not known: their traces are not stored any more"


def _divergence_lines(divergence: Divergence) -> Iterator[str]:
    call = "" if divergence.model_call is None else f", reply {divergence.model_call} of the model"
    yield f"  first difference: turn {divergence.turn + 1}{call}, {_safe(divergence.what)}"
    passed, failed = _safe(divergence.passed), _safe(divergence.failed)
    if passed == failed:
        yield "    they differ in a value that is masked here, or in white space"
        return
    yield f"    passed: {_cut(passed, failed)}"
    yield f"    failed: {_cut(failed, passed)}"


def _cut(text: str, other: str) -> str:
    """Shorten a step so that its first difference from the other is visible."""
    same = next((place for place, pair in enumerate(zip(text, other, strict=False)) if pair[0] != pair[1]), len(other))
    start = max(same - _BEFORE, 0)
    begin = f"…{text[start:]}" if start and len(text) > _LONGEST else text
    return (begin if len(begin) <= _LONGEST else f"{begin[:_LONGEST]}…") or "(empty)"


def _safe(text: str) -> str:
    return one_line(redact(text))


def flaky_record(found: Sequence[FlakyCase]) -> Mapping[str, Any]:
    """Return the flaky cases as JSON."""
    return {
        "schema_version": SCHEMA_VERSION,
        "cases": [
            {
                "target": flaky.case.target,
                "eval_set": flaky.case.eval_set,
                "eval_id": flaky.case.eval_id,
                "occurrence": flaky.case.occurrence,
                "passed": flaky.passed,
                "samples": flaky.samples,
                "probability": flaky.probability,
                "interval": list(flaky.interval),
                "runs": list(flaky.runs),
                "divergence": None if flaky.divergence is None else _divergence_record(flaky.divergence),
                "judged_differently": list(flaky.disagreeing),
            }
            for flaky in found
        ],
    }


def _divergence_record(divergence: Divergence) -> Mapping[str, Any]:
    return {
        "turn": divergence.turn + 1,
        "model_call": divergence.model_call,
        "what": redact(divergence.what),
        "passed": redact(divergence.passed),
        "failed": redact(divergence.failed),
    }
