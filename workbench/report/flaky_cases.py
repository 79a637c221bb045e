"""Flaky cases: their verdict changed although nothing that they use changed. Finds where their executions differ.

The samples of a case are its repeats and its earlier executions on the same input, criteria, code, files and variables
as the newest one. Replayed executions are no samples: they repeat one.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from itertools import islice, product, zip_longest
from typing import Any, NamedTuple

from workbench.model.evalset import InvocationEvents, Quarantine
from workbench.model.identity import CaseKey, DependencyKind, JobKey
from workbench.model.results import CaseResult, CaseStatus, TurnResult
from workbench.model.text import join_some, mask_named_secrets, measure_common_prefix, pluralise, redact, redacted_line
from workbench.model.trace import CallEvent, GroundingEvent, ResponseEvent, TextEvent, TurnEvent, iterate_events
from workbench.report.report_formats import SCHEMA_VERSION, model_record
from workbench.report.significance import Interval, format_interval, wilson_interval
from workbench.store.evalsets.quarantine import DIFFERENT_CASE, Quarantines
from workbench.store.history.history import History
from workbench.store.history.history_queries import StoredVerdict

_LONGEST = 200  # characters of a step in text
_BEFORE = 60  # characters before the first difference of two long steps
_MOST_READ = 20  # executions of which those with a trace are looked for
_MOST_NAMED = 5
_MOST_COMPARED = 5  # executions with the same verdict

FindQuarantine = Callable[[CaseKey], Quarantine | None]


class Divergence(NamedTuple):
    """The first step that sets an execution that passed apart from one that failed.

    `turn` counts from 0. `model_call` is the call of the model, counted from 1 in its turn, whose reply is the step;
    None if it is no reply of a model. `what` names the step, `passed` and `failed` are the step in each execution.
    """

    turn: int
    model_call: int | None
    what: str
    passed: str
    failed: str


class StoredPlace(NamedTuple):
    run_id: str
    job: JobKey


@dataclass(frozen=True, slots=True, kw_only=True)
class FlakyCase:
    """A flaky case. `passed` of its `samples` passed; they come from `runs` runs.

    `compared_places` are those of an execution that passed and one that failed; None if their traces are deleted.
    `divergence` is None if no step sets them apart; `disagreeing` are then the criteria that judged them differently.
    `is_noisy`: they differ only in values that also differ between executions with the same verdict, such as ids and
    times. `quarantine` is the present one.
    """

    case: CaseKey
    passed: int
    samples: int
    runs: Sequence[str]
    divergence: Divergence | None
    disagreeing: Sequence[str]
    compared_places: tuple[StoredPlace, StoredPlace] | None = None
    is_noisy: bool = False
    quarantine: Quarantine | None = None

    @property
    def probability(self) -> float:
        return self.passed / self.samples

    @property
    def interval(self) -> Interval:
        """The 95 % interval of the probability to pass."""
        return wilson_interval(self.passed, self.samples)


class FlakySearch(NamedTuple):
    """The flaky cases, those whose verdict is least certain first, and those left out after an outage.

    The newest job of the latter ended before the agent started, so changes since their samples are unknown.
    """

    cases: Sequence[FlakyCase]
    left_out: Sequence[CaseKey]


def find_flaky_cases(history: History, *, find_quarantine: FindQuarantine = lambda _: None) -> FlakySearch:
    """Find the flaky cases of a history. `find_quarantine` returns the quarantine of a case. Raises StoreError."""
    flaky_cases, left_out = [], []
    rows = _DependencyRows(history)
    by_case: dict[CaseKey, list[StoredVerdict]] = {}
    for each in history.list_mixed_verdicts():
        by_case.setdefault(each.job.case, []).append(each)
    for case, verdicts in by_case.items():
        newest = history.get_newest_verdict(case)
        samples = [] if newest is None else _select_samples(verdicts, newest, rows)
        if _are_mixed(samples):
            flaky_cases.append(replace(_describe(history, case, samples), quarantine=find_quarantine(case)))
        elif newest is not None and _is_outage(newest, verdicts[0]):
            left_out += [case] if _are_mixed(_select_samples(verdicts, verdicts[0], rows)) else []
    return FlakySearch(sorted(flaky_cases, key=lambda flaky: (abs(flaky.probability - 0.5), str(flaky.case))), left_out)


def _are_mixed(samples: Sequence[StoredVerdict]) -> bool:
    return len({each.job.status for each in samples}) > 1


def _is_outage(newest: StoredVerdict, earlier: StoredVerdict) -> bool:
    """Return True if the newest job, with the same input as before, ended before its agent started.

    Nothing shows what such a job depended on.
    """
    has_same_input = newest.job.execution_key == earlier.job.execution_key
    return has_same_input and newest.job.status is CaseStatus.ERROR and newest.dependencies is None


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
        self._agreements: dict[tuple[int, int], bool] = {}

    def are_equal(self, one: StoredVerdict, other: StoredVerdict) -> bool:
        """Return True if nothing that both used differs.

        Dependencies that cannot be followed may have changed. They count as equal within one run only, although even a
        run may continue after a change.
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
        if (one, other) not in self._agreements:
            left, right = self._read(one), self._read(other)
            self._agreements[one, other] = all(right.get(key, state) == state for key, state in left.items())
        return self._agreements[one, other]

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


def _describe(history: History, case: CaseKey, samples: Sequence[StoredVerdict]) -> FlakyCase:
    passed = [each for each in samples if each.job.status is CaseStatus.PASSED]
    failed = [each for each in samples if each.job.status is CaseStatus.FAILED]
    executions = {each.execution: each for each in passed}
    judged_both_ways = next((each for each in failed if each.execution in executions), None)
    if judged_both_ways is not None:
        places: tuple[StoredPlace, StoredPlace] | None = (
            _get_place(executions[judged_both_ways.execution]),
            _get_place(judged_both_ways),
        )
        passed_result, failed_result = (history.result(*place) for place in places or ())
        divergence, is_noisy = None, False
    else:
        groups = _find_stored(history, passed), _find_stored(history, failed)
        comparison = _compare_groups(*(list(group.values()) for group in groups))
        if comparison is None:
            places = passed_result = failed_result = divergence = None
            is_noisy = False
        else:
            first, second, divergence, is_noisy = comparison
            places = list(groups[0])[first], list(groups[1])[second]
            passed_result, failed_result = groups[0][places[0]], groups[1][places[1]]
    return FlakyCase(
        case=case,
        passed=len(passed),
        samples=len(samples),
        runs=list(dict.fromkeys(each.job.run_id for each in samples)),
        divergence=divergence,
        disagreeing=_list_disagreeing(passed_result, failed_result)
        if passed_result and failed_result and divergence is None
        else (),
        compared_places=None if passed_result is None or failed_result is None else places,
        is_noisy=is_noisy,
    )


def _get_place(verdict: StoredVerdict) -> StoredPlace:
    return StoredPlace(verdict.job.run_id, verdict.job.key)


def _find_stored(history: History, newest_first: Sequence[StoredVerdict]) -> dict[StoredPlace, CaseResult]:
    """Return the newest results whose traces are still stored: retention keeps the last few of a case."""
    places = list(map(_get_place, newest_first[:_MOST_READ]))
    results = zip(places, history.find_results([*places]), strict=True)
    stored = ((place, each) for place, each in results if each is not None and each.execution.turns)
    return dict(islice(stored, _MOST_COMPARED))


def _list_disagreeing(one: CaseResult, other: CaseResult) -> Sequence[str]:
    statuses = {metric.name: metric.status for metric in one.metrics}
    return [metric.name for metric in other.metrics if statuses.get(metric.name, metric.status) is not metric.status]


# The first step that sets the executions that failed apart.


class _Step(NamedTuple):
    """One step of a turn. Two steps are equal if `what` and `value` are; ids of calls are left out."""

    what: str
    model_call: int | None
    value: Any
    text: str


_Steps = Sequence[Sequence[_Step]]  # of each turn
_Group = Sequence[_Steps]  # executions with the same verdict

_NOTHING = "nothing more in this turn"
_CHANGING = re.compile(
    r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
    r"|\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?"
    r"|\d\d:\d\d:\d\d(?:\.\d+)?|\b(?=[0-9a-f]*\d)[0-9a-f]{8,}\b|\d{9,}(?:\.\d+)?",
    re.IGNORECASE,
)
"""Ids and times: UUIDs, ISO times, long hexadecimal and decimal numbers."""
_NUMBER = re.compile(r"\d+")


def find_divergence(passed: Sequence[CaseResult], failed: Sequence[CaseResult]) -> Divergence | None:
    """Find the first step that sets failed executions of a case apart from passed ones; None if there is none.

    Values that differ in every pair of executions with the same verdict, such as ids and times, set nothing apart. Of
    all pairs of a passed and a failed execution, the one that agrees longest is compared.
    """
    comparison = _compare_groups(passed, failed)
    return None if comparison is None else comparison[2]


def _compare_groups(
    passed: Sequence[CaseResult], failed: Sequence[CaseResult]
) -> tuple[int, int, Divergence | None, bool] | None:
    """Return the positions of the compared executions, where they diverge, and whether all differences are noise."""
    if not passed or not failed:
        return None
    groups = [
        [[list(_list_steps(turn)) for turn in result.execution.turns] for result in group] for group in (passed, failed)
    ]
    divergences: dict[tuple[int, int], tuple[tuple[int, int], Divergence]] = {}
    doubtful: dict[_Noise, tuple[tuple[int, int], Divergence]] = {}
    has_noise = False
    for pair in product(range(len(passed)), range(len(failed))):
        for place, left, right in _list_differences(groups[0][pair[0]], groups[1][pair[1]]):
            noise = _judge_difference(place, left, right, groups)
            if noise is _Noise.NO:
                divergences[pair] = place, _make_divergence(place[0], left, right)
                break
            has_noise = True
            # The first id, and the last text of the first pair: what the agent said in the end.
            if (noise is _Noise.WORDING and doubtful.get(noise, (pair,))[0] == pair) or noise not in doubtful:
                doubtful[noise] = pair, _make_divergence(place[0], left, right)
    if len(divergences) == len(passed) * len(failed):
        pair = max(divergences, key=lambda each: (divergences[each][0], -each[0], -each[1]))
        return *pair, divergences[pair][1], False
    # A pair that differs in noise only shows that no other difference sets the failed executions apart.
    for noise in (_Noise.LIKELY, _Noise.WORDING):
        if noise in doubtful and not divergences:
            pair, divergence = doubtful[noise]
            return *pair, divergence, False
    first = next(pair for pair in product(range(len(passed)), range(len(failed))) if pair not in divergences)
    return *first, None, has_noise


class _Noise(Enum):
    """Whether a difference is unrelated to the verdict."""

    NO = 0
    WORDING = 1  # a text that is different in every execution, also apart from numbers
    LIKELY = 2  # it looks like an id or a time, and there are too few executions that passed to compare
    YES = 3


def _list_differences(one: _Steps, other: _Steps) -> Iterator[tuple[tuple[int, int], _Step | None, _Step | None]]:
    """Yield the steps that differ, each with its turn and its position in it."""
    for turn, (left_turn, right_turn) in enumerate(zip_longest(one, other, fillvalue=())):
        for position, (left, right) in enumerate(zip_longest(left_turn, right_turn)):
            if left is None or right is None or (left.what, left.value) != (right.what, right.value):
                yield (turn, position), left, right


def _make_divergence(turn: int, left: _Step | None, right: _Step | None) -> Divergence:
    step = left or right
    assert step is not None
    return Divergence(
        turn=turn,
        model_call=step.model_call,
        what=step.what if left is None or right is None or left.what == right.what else "the next step",
        passed=_NOTHING if left is None else left.text,
        failed=_NOTHING if right is None else right.text,
    )


def _judge_difference(
    place: tuple[int, int], left: _Step | None, right: _Step | None, groups: Sequence[_Group]
) -> _Noise:
    """Decide whether two steps differ only in values that differ between all executions, whatever their verdict."""
    if left is None or right is None or left.what != right.what:
        return _Noise.NO
    peers = [[step for each in group if (step := _get_step(each, place, left.what)) is not None] for group in groups]
    noises = {_judge_value(path, left, right, peers) for path in _list_changed_paths(left.value, right.value)}
    return min(noises, key=lambda noise: noise.value)


def _judge_value(path: Sequence[str | int], left: _Step, right: _Step, peers: Sequence[Sequence[_Step]]) -> _Noise:
    one, other = _get_value(left.value, path), _get_value(right.value, path)
    if len(peers[0]) < 2:  # a failed execution may differ from another one in the value that decides
        is_likely = isinstance(one, str | int | float) and _hide_changing(one) == _hide_changing(other)
        return _Noise.LIKELY if is_likely else _Noise.NO
    values = [[_get_value(step.value, path) for step in group] for group in peers]
    if not _all_differ([list(map(_dump, group)) for group in values]):
        return _Noise.NO
    if not isinstance(one, str) or not isinstance(other, str) or _hide_numbers(one) == _hide_numbers(other):
        return _Noise.YES
    # The text around an id may set them apart.
    return _Noise.WORDING if _all_differ([list(map(_hide_numbers, group)) for group in values]) else _Noise.NO


def _all_differ(groups: Sequence[Sequence[str]]) -> bool:
    """Return True if in each group of several values no two are the same."""
    return all(len(set(group)) == len(group) for group in groups)


def _hide_changing(value: object) -> str:
    return _CHANGING.sub("#", str(value))


def _hide_numbers(value: object) -> str:
    return _NUMBER.sub("#", _hide_changing(value))


def _dump(value: object) -> str:
    return json.dumps(value, sort_keys=True, default=repr)


def _get_step(steps: _Steps, place: tuple[int, int], what: str) -> _Step | None:
    """Return the step at a place if it is of the same kind."""
    turn, position = place
    if turn >= len(steps) or position >= len(steps[turn]):
        return None
    step = steps[turn][position]
    return step if step.what == what else None


def _list_changed_paths(one: Any, other: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Yield the places of values that differ, as deep as both sides have the same shape."""
    if isinstance(one, Mapping) and isinstance(other, Mapping) and one.keys() == other.keys():
        pairs: Iterable[tuple[str | int, Any, Any]] = ((key, one[key], other[key]) for key in one)
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        pairs = ((place, *pair) for place, pair in enumerate(zip(one, other, strict=True)))
    else:
        pairs = ()
        if one != other:
            yield path
    for key, left, right in pairs:
        if left != right:
            yield from _list_changed_paths(left, right, (*path, key))


def _get_value(value: Any, path: Sequence[str | int]) -> Any:
    """Return the value at a place; None if there is none."""
    for step in path:
        try:
            value = value[step]
        except (KeyError, IndexError, TypeError):
            return None
    return value


def _list_steps(turn: TurnResult) -> Iterator[_Step]:
    invocation = turn.invocation
    prompt = invocation.user_content.text(thoughts=False)
    yield _Step("the message of the user", None, prompt, prompt)
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
    answer = invocation.response_text(thoughts=False) or ""
    yield _Step("the answer", model_call + is_after_response if has_models else None, answer, answer)


def _make_step(event: TurnEvent, model_call: int | None) -> _Step:
    if isinstance(event, CallEvent):
        name, args = event.call.name or "", event.call.args or {}
        return _Step(f"the call of {name}", model_call, args, f"{name}({_format(args)})")
    if isinstance(event, ResponseEvent):
        name, response = event.response.name or "", event.response.response or {}
        return _Step(f"the result of {name}", None, response, f"{name} → {_format(response)}")
    if isinstance(event, TextEvent):
        return _Step("a text before the answer", model_call, [event.author, event.text], event.text)
    assert isinstance(event, GroundingEvent)
    return _Step("what the model searched", model_call, [event.author, event.metadata], _format(event.metadata))


def _format(value: Mapping[str, Any]) -> str:
    return json.dumps(mask_named_secrets(value), ensure_ascii=False, default=repr, sort_keys=True)


# Flaky cases as text and as a versioned JSON document.


class QuarantinedCase(NamedTuple):
    """An entry of the file beside an eval set.

    `is_missing`: the set no longer has the case. `is_changed`: the case with this id now has other user messages. In
    both cases the quarantine has no effect.
    """

    eval_set: str
    name: str
    quarantine: Quarantine
    is_missing: bool
    is_changed: bool = False

    @property
    def is_stale(self) -> bool:
        """True if the set no longer has this case."""
        return self.is_missing or self.is_changed


def quarantine_lines(cases: Sequence[QuarantinedCase]) -> Iterator[str]:
    for each in cases:
        stale = " (the set has no such case)" if each.is_missing else ""
        stale = f" (without effect: {DIFFERENT_CASE})" if each.is_changed else stale
        yield f"  {redacted_line(f'{each.eval_set}:{each.name}')}: {redacted_line(str(each.quarantine))}{stale}"


def list_quarantined(
    quarantines_by_set: Mapping[str, Quarantines], *, has_case: Callable[[str, str], bool]
) -> list[QuarantinedCase]:
    """List the entries of all sets by name. `has_case` gets a set and a case."""
    return [
        QuarantinedCase(eval_set, name, quarantine, is_missing=not has_case(eval_set, name), is_changed=is_changed)
        for eval_set, quarantines in quarantines_by_set.items()
        for entries, is_changed in ((quarantines.cases, False), (quarantines.changed, True))
        for name, quarantine in entries.items()
    ]


def outage_line(left_out: Sequence[CaseKey]) -> str | None:
    """Say how many cases are left out after an outage; None if there are none."""
    if not left_out:
        return None
    names = join_some([redacted_line(str(case)) for case in left_out], _MOST_NAMED)
    return (
        f"left out: {pluralise(len(left_out), 'case')} whose last run ended before the agent started, so that it is "
        f"not known what changed; `workbench run --failed` runs them again: {names}"
    )


def explain_no_divergence(flaky: FlakyCase) -> str:
    """Say why there is no first difference."""
    if flaky.compared_places is None:
        return "where they differ is not known: their traces are not stored any more"
    reason = (
        "no step sets the failed executions apart, only values such as ids and times, which always differ"
        if flaky.is_noisy
        else "the executions are equal"
    )
    names = ", ".join(map(redacted_line, flaky.disagreeing))
    return f"{reason}; they were judged differently: {names}" if names else reason


def flaky_lines(flaky_cases: Sequence[FlakyCase], *, repeated: int) -> Iterator[str]:
    """Yield the flaky cases as text. `repeated` cases have more than one verdict, so that they could be flaky."""
    if not flaky_cases:
        cases = pluralise(repeated, "case")
        yield f"no flaky case among {cases} with more than one verdict on the same input and criteria"
        return
    counts = Counter(str(flaky.case) for flaky in flaky_cases)
    names = {
        flaky.case: f"{flaky.case}, agent {flaky.case.target}" if counts[str(flaky.case)] > 1 else str(flaky.case)
        for flaky in flaky_cases
    }
    yield f"{pluralise(len(flaky_cases), 'flaky case')}: the verdict changed, and nothing that the case uses did"
    for flaky in flaky_cases:
        yield ""
        yield (
            f"{redacted_line(names[flaky.case])}: {flaky.passed} of {flaky.samples} passed, "
            f"{flaky.probability:.0%}{format_interval(flaky.interval, '.0%')}, in {pluralise(len(flaky.runs), 'run')}"
        )
        if flaky.divergence is not None:
            yield from _divergence_lines(flaky.divergence)
        else:
            yield f"  {explain_no_divergence(flaky)}"
        if flaky.quarantine is not None:
            yield f"  {redacted_line(str(flaky.quarantine))}"


def describe_divergence(divergence: Divergence) -> tuple[str, str, str]:
    """Describe the first difference in short texts: its place, and the step of each execution."""
    call = "" if divergence.model_call is None else f", reply {divergence.model_call} of the model"
    passed, failed = redacted_line(divergence.passed), redacted_line(divergence.failed)
    place = f"first difference: turn {divergence.turn + 1}{call}, {redacted_line(divergence.what)}"
    return place, _cut(passed, failed), _cut(failed, passed)


def _divergence_lines(divergence: Divergence) -> Iterator[str]:
    place, passed, failed = describe_divergence(divergence)
    yield f"  {place}"
    if redacted_line(divergence.passed) == redacted_line(divergence.failed):
        yield "    they differ in a value that is masked here, or in white space"
        return
    yield f"    passed: {passed}"
    yield f"    failed: {failed}"


def _cut(text: str, other: str) -> str:
    """Shorten a step so that its first difference from the other is visible."""
    start = max(measure_common_prefix(text, other) - _BEFORE, 0)
    begin = f"…{text[start:]}" if start and len(text) > _LONGEST else text
    return (begin if len(begin) <= _LONGEST else f"{begin[:_LONGEST]}…") or "(empty)"


def flaky_record(
    flaky_cases: Sequence[FlakyCase],
    *,
    left_out: Sequence[CaseKey] = (),
    quarantined: Sequence[QuarantinedCase] = (),
    problems: Sequence[str] = (),
) -> Mapping[str, Any]:
    """Return the flaky cases as JSON, the number of cases left out after an outage, and all quarantined cases.

    `problems` are quarantines that cannot be read.
    """
    return {
        "schema_version": SCHEMA_VERSION,
        "cases": [
            {
                **flaky.case.model_dump(),
                "passed": flaky.passed,
                "samples": flaky.samples,
                "probability": flaky.probability,
                "interval": list(flaky.interval),
                "runs": list(flaky.runs),
                "divergence": None if flaky.divergence is None else _divergence_record(flaky.divergence),
                "differs_only_in_noise": flaky.is_noisy,
                "judged_differently": list(flaky.disagreeing),
                "quarantine": model_record(flaky.quarantine),
            }
            for flaky in flaky_cases
        ],
        "left_out_after_outage": len(left_out),
        "problems": [redact(each) for each in problems],
        "quarantined": [
            {
                "eval_set": each.eval_set,
                "case": each.name,
                "is_missing": each.is_missing,
                "is_changed": each.is_changed,
                **each.quarantine.model_dump(mode="json"),
            }
            for each in quarantined
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
