"""Shrinking: the smallest conversation, session state and set of expected calls that still fails the same way.

Delta debugging (ddmin: Zeller and Hildebrandt, "Simplifying and Isolating Failure-Inducing Input", 2002) over the turns
of a case, then the sentences of its messages, the keys of its initial state, and its expected calls. Every candidate is
executed by the agent of the case; nothing of the project changes, and the history gets no result.
"""

from __future__ import annotations

import copy
import json
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import pairwise
from typing import Any, NamedTuple, TypeVar

from workbench.engine.case_variants import (
    ERRORS_IN_A_ROW,
    AgentFailed,
    BudgetUsedUp,
    CaseData,
    CaseExecutor,
    Variant,
    explain_end,
    run_search,
)
from workbench.engine.plan import PlanError
from workbench.metrics.trajectory import forgives_difference
from workbench.model.criteria import Criterion, CustomMetricFunction, EvalConfig
from workbench.model.evalset import EvalCase, Invocation
from workbench.model.identity import CaseKey
from workbench.model.results import CaseResult, CaseStatus, MetricResult, MetricStatus
from workbench.model.text import mask_named_secrets, shorten, suggest_name
from workbench.model.turn_diff import (
    Difference,
    DifferenceKind,
    compare_turn,
    list_calls,
    list_responses,
    match_responses,
)
from workbench.report.explanation import find_subjects
from workbench.report.run_report import ReportedCase, has_upper_limit
from workbench.store.json.json_path import find_key

# The failure: which criteria fail, and by which kinds of differences.


_PREDICATE = "predicate"
_LONGEST_VALUE = 80  # characters of an expected value in text


class Symptom(NamedTuple):
    """A failed criterion and one kind of difference that it scores, with its tool and its argument or state key.

    `expected` is the expected value as JSON. It identifies the expectation, as shrinking changes none. The parts that
    do not exist are empty, all of them if the criterion scores something else.
    """

    criterion: str
    kind: str = ""
    tool: str = ""
    name: str = ""
    expected: str = ""

    def __str__(self) -> str:
        what = " ".join(part for part in (self.kind.replace("_", " "), self.tool, self.name) if part)
        wanted = f", expected {shorten(self.expected, _LONGEST_VALUE)}" if self.expected else ""
        return f"{self.criterion}: {what}{wanted}" if what else self.criterion


@dataclass(frozen=True, slots=True)
class Failing:
    """A failure: its symptoms, and the last turn (from 0) that has one; None if no turn is known to have one.

    `tolerated` are the symptoms of criteria that pass nevertheless, because of other turns. `extra_calls` counts the
    calls that a criterion does not expect.
    """

    symptoms: frozenset[Symptom]
    last_turn: int | None = None
    tolerated: frozenset[Symptom] = frozenset()
    extra_calls: int = 0

    @property
    def criteria(self) -> tuple[str, ...]:
        """The names of the failed criteria."""
        return tuple(sorted({symptom.criterion for symptom in self.symptoms}))


def find_failure(case: EvalCase, result: CaseResult) -> Failing:
    """Find the symptoms of a failed case. Without a failed criterion there are none."""
    reported = ReportedCase(result, case)
    symptoms: set[Symptom] = set()
    tolerated: set[Symptom] = set()
    last_turn: int | None = None
    extra_calls = 0
    for metric in result.metrics:
        if metric.status not in (MetricStatus.PASSED, MetricStatus.FAILED):
            continue
        found: set[Symptom] = set()
        last: int | None = None
        for turn, differences in enumerate(_find_scored_differences(reported, metric)):
            if differences is None:
                continue
            last = turn
            found |= {_make_symptom(metric.name, each) for each in differences}
            extra_calls += sum(each.kind is DifferenceKind.CALL_EXTRA for each in differences)
        if find_subjects(metric.name) == ("state",):
            found |= {_make_symptom(metric.name, each) for each in reported.state_differences}
        for rubric in _list_failed_rubrics(metric):
            found.add(Symptom(metric.name, "rubric", name=rubric))
        if metric.status is MetricStatus.FAILED:
            symptoms |= found or {Symptom(metric.name)}
            last_turn = max((turn for turn in (last, last_turn) if turn is not None), default=None)
        elif found or last is not None:
            tolerated |= found or {Symptom(metric.name)}
    return Failing(frozenset(symptoms), last_turn, frozenset(tolerated), extra_calls)


def _find_scored_differences(reported: ReportedCase, metric: MetricResult) -> Iterator[Sequence[Difference] | None]:
    """Yield for each turn the differences by which a metric lost points; None for a turn that did not fail."""
    subjects = find_subjects(metric.name)
    is_upper = has_upper_limit(metric)
    expected = reported.expected.conversation if reported.expected is not None else None
    turns = zip(expected or (), reported.result.execution.turns, reported.differences, strict=False)
    for number, (wanted, given, differences) in enumerate(turns):
        scores = metric.per_invocation
        score = scores[number].score if number < len(scores) else metric.score
        limit = 1.0 if metric.threshold is None else metric.threshold
        if score is None or (score <= limit if is_upper else score >= limit):
            yield None
        elif len(subjects) > 1:  # a metric that may score anything
            yield ()
        elif subjects == ("response",):
            yield [each for each in differences if each.kind is DifferenceKind.RESPONSE_CHANGED]
        elif subjects == ("calls",):
            comparison = compare_turn(wanted, given.invocation)
            calls = (each for each in differences if each.kind is not DifferenceKind.RESPONSE_CHANGED)
            yield [each for each in calls if not forgives_difference(metric, each, comparison)]
        else:
            yield None


def _make_symptom(criterion: str, difference: Difference) -> Symptom:
    name = ".".join(step for step in difference.path if isinstance(step, str))
    value = difference.expected
    shown = "" if value is None else json.dumps(mask_named_secrets(value, name), ensure_ascii=False, sort_keys=True)
    return Symptom(criterion, difference.kind.value, difference.tool, name, shown)


def _list_failed_rubrics(metric: MetricResult) -> Iterator[str]:
    for turn in metric.per_invocation:
        if turn.judgement is not None:
            yield from (rubric.rubric_id for rubric in turn.judgement.rubrics if rubric.score == 0)


def make_predicate_config(path: str) -> EvalConfig:
    """Return criteria that consist of a function `module:function` of the user. Raises PlanError for another form.

    The function has the form of a custom metric.
    """
    module, colon, name = path.partition(":")
    if not (module and colon and name) or not all(part.isidentifier() for part in (*module.split("."), name)):
        raise PlanError(f"--predicate: found {path!r}, expected module:function")
    return EvalConfig(
        criteria=(Criterion(metric=_PREDICATE),),
        custom_metrics={_PREDICATE: CustomMetricFunction(path=f"{module}.{name}")},
        source="--predicate",
    )


# Outcomes of candidates.


class CandidateOutcome(StrEnum):
    """How the executions of a candidate ended, compared with the failure of the case."""

    SAME = "same failure"
    OTHER = "another failure"
    PASSED = "no failure"
    ERROR = "error"
    MIXED = "repeats disagree"


class FailureTest:
    """Decides whether an execution fails the same way as the case.

    With `predicate` the function of `make_predicate_config` decides. Otherwise the same criteria must fail by the same
    kinds of differences from the same expectations; `criteria` restricts them to some. A criterion that the case passes
    may fail only by a difference that the case has, too: a mean over fewer turns may be lower.
    """

    def __init__(self, *, predicate: bool = False, criteria: Sequence[str] = ()) -> None:
        self._predicate = predicate
        self._criteria = frozenset(criteria)
        self._case = Failing(frozenset())
        self.failure = Failing(frozenset())
        """The failure of the case by these criteria, from `set_failure` on."""

    def set_failure(self, variant: Variant) -> None:
        """Take the failure of the case itself. Raises PlanError for unknown criteria."""
        found = find_failure(*variant)
        if self._predicate:
            self.failure = Failing(frozenset({Symptom(_PREDICATE)}))
            return
        names = {
            each.name for each in variant.result.metrics if each.status in (MetricStatus.PASSED, MetricStatus.FAILED)
        }
        for unknown in sorted(self._criteria - names) if names else ():
            listed = ", ".join(sorted(names)) or "none"
            raise PlanError(f"--criterion: found {unknown!r}, expected one of {listed}{suggest_name(unknown, names)}")
        self._case = found
        self.failure = Failing(self._select(found.symptoms), found.last_turn)

    def classify(self, variant: Variant, *, whole: Variant | None = None) -> CandidateOutcome:
        """Return the outcome of one execution. An ERROR is never the same failure.

        `whole` has all expected calls if this variant lacks some: their absence may change no criterion.
        """
        result = variant.result
        if result.status is CaseStatus.ERROR:
            return CandidateOutcome.ERROR
        if self._predicate:
            metrics = [metric for metric in result.metrics if metric.name == _PREDICATE]
            scores = [metric.score for metric in metrics]
            scores += [turn.score for metric in metrics for turn in metric.per_invocation]
            return (
                CandidateOutcome.SAME
                if any(score is not None and score > 0 for score in scores)
                else CandidateOutcome.PASSED
            )
        if result.status is not CaseStatus.FAILED:
            return CandidateOutcome.PASSED
        found = find_failure(*variant)
        known = frozenset(each for each in found.symptoms if each.criterion in self._case.criteria)
        is_same = bool(self.failure.symptoms) and self._select(known) == self.failure.symptoms
        is_same = is_same and found.symptoms - known <= self._case.tolerated
        if whole is not None:
            is_same = is_same and _has_same_differences(found, find_failure(*whole))
        return CandidateOutcome.SAME if is_same else CandidateOutcome.OTHER

    def _select(self, symptoms: Iterable[Symptom]) -> frozenset[Symptom]:
        return frozenset(each for each in symptoms if not self._criteria or each.criterion in self._criteria)


def _has_same_differences(found: Failing, whole: Failing) -> bool:
    """Return False if an expected call is missed: one that the agent makes, or one whose absence a criterion scored."""
    is_equal = found.symptoms | found.tolerated == whole.symptoms | whole.tolerated
    return is_equal and found.extra_calls <= whole.extra_calls


# Parts of a case that can be left out.


class CasePart(StrEnum):
    """The parts of a case, in the order in which they are made smaller."""

    TURNS = "turns"
    SENTENCES = "sentences"
    STATE = "state keys"
    CALLS = "expected calls"


Item = TypeVar("Item")
Items = Sequence[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reduction:
    """A list of `items` of a part of a case. `keep` returns the case with only some of them.

    Turns are positions in the conversation; items of other parts that have a turn begin with it.
    """

    part: CasePart
    items: Items
    keep: Callable[[CaseData, Items], CaseData]
    may_be_empty: bool = False


def list_reductions(data: CaseData, part: CasePart) -> Iterator[Reduction]:
    """Yield the lists of items of a part that can be made shorter."""
    turns = _get_turns(data)
    if part is CasePart.TURNS:
        yield Reduction(part=part, items=range(len(turns)), keep=_keep_turns)
    elif part is CasePart.SENTENCES:
        for place, sentences in _list_messages(turns):
            items = [(*place, number) for number in range(len(sentences))]
            yield Reduction(part=part, items=items, keep=_keep_sentences)
    elif part is CasePart.STATE:
        yield Reduction(part=part, items=list(_get_state(data)), keep=_keep_state, may_be_empty=True)
    else:
        calls = [(turn, call) for turn, each in enumerate(turns) for call in range(len(_list_call_places(each)[0]))]
        yield Reduction(part=part, items=calls, keep=_keep_calls, may_be_empty=True)


def measure_case(data: CaseData) -> dict[CasePart, int]:
    """Count the items of each part of a case."""
    return {part: sum(len(each.items) for each in list_reductions(data, part)) for part in CasePart}


def _get(data: Any, key: str) -> Any:
    """Return the value of a key in either spelling; None if it is missing."""
    name = find_key(data, key, free=False) if isinstance(data, Mapping) else None
    return None if name is None else data[name]


def _get_turns(data: CaseData) -> list[Any]:
    return list(_get(data, "conversation") or ())


def _copy_case(data: CaseData) -> dict[str, Any]:
    return dict(copy.deepcopy(data))


def _keep_turns(data: CaseData, kept: Items) -> CaseData:
    found = _copy_case(data)
    name = find_key(found, "conversation", free=False)
    assert name is not None  # a case without conversation has no turns to keep
    found[name] = [found[name][index] for index in kept]
    return found


_SENTENCE = re.compile(
    r"\s*+\S(?:[.!?…]++[\"'”’)\]]*+(?!\s)|.)*?"  # marks that end nothing at once: each of them would search for the end
    r"(?:[.!?…]++[\"'”’)\]]*+(?=\s)|[。！？]+|(?=\n)|$)\s*",
    re.DOTALL,
)


def split_sentences(text: str) -> list[str]:
    """Split a message into sentences and lines, with the blanks behind them. Joined they are the message."""
    return _SENTENCE.findall(text) if text.strip() else [text]


def _list_messages(turns: Sequence[Any]) -> Iterator[tuple[tuple[int, int], list[str]]]:
    """Yield the texts of the user with their places: turn and part."""
    for turn, each in enumerate(turns):
        for number, part in enumerate(_get(_get(each, "user_content"), "parts") or ()):
            text = _get(part, "text")
            if isinstance(text, str) and text:
                yield (turn, number), split_sentences(text)


def _keep_sentences(data: CaseData, kept: Items) -> CaseData:
    """Keep some sentences of one message; `kept` are turn, part and sentence."""
    turn, part = kept[0][:2]
    found = _copy_case(data)
    piece = _get(_get(_get_turns(found)[turn], "user_content"), "parts")[part]
    sentences = split_sentences(piece["text"])
    if len(kept) < len(sentences):
        piece["text"] = "".join(sentences[number] for _, _, number in kept).strip()
    return found


def _get_state(data: CaseData) -> Mapping[str, Any]:
    state = _get(_get(data, "session_input"), "state")
    return state if isinstance(state, Mapping) else {}


def _keep_state(data: CaseData, kept: Items) -> CaseData:
    found = _copy_case(data)
    state = _get_state(found)
    if isinstance(state, dict):
        for key in state.keys() - set(kept):
            del state[key]
    return found


_CallPlace = tuple[list[Any], int]
"""The list that contains a call or a response, and its position there."""


def _list_call_places(turn: Any) -> tuple[list[_CallPlace], list[_CallPlace]]:
    """Return the places of the expected calls of a turn and of the responses of tools, in either form."""
    data = _get(turn, "intermediate_data")
    events = _get(data, "invocation_events")
    if not isinstance(events, list):
        listed = [_get(data, key) for key in ("tool_uses", "tool_responses")]
        calls, responses = ([(each, n) for n in range(len(each))] if isinstance(each, list) else [] for each in listed)
        return calls, responses
    parts = [_get(_get(event, "content"), "parts") for event in events]
    places = [(each, number) for each in parts if isinstance(each, list) for number in range(len(each))]
    return (
        [place for place in places if _get(place[0][place[1]], "function_call") is not None],
        [place for place in places if _get(place[0][place[1]], "function_response") is not None],
    )


def _keep_calls(data: CaseData, kept: Items) -> CaseData:
    """Keep some expected calls, named by turn and position, and the responses of tools to them."""
    found = _copy_case(data)
    kept_places = set(kept)
    for number, turn in enumerate(_get_turns(found)):
        calls, responses = _list_call_places(turn)
        gone = [call for call in range(len(calls)) if (number, call) not in kept_places]
        if not gone:
            continue
        invocation = Invocation.model_validate(turn)
        answers = match_responses(list_calls(invocation), list_responses(invocation))
        dropped = [calls[call] for call in gone]
        dropped += [responses[answer] for call in gone if (answer := answers[call]) is not None]
        for items, place in sorted(dropped, key=lambda each: -each[1]):
            del items[place]
        _drop_empty_events(turn)
    return found


def _drop_empty_events(turn: Any) -> None:
    events = _get(_get(turn, "intermediate_data"), "invocation_events")
    if isinstance(events, list):
        events[:] = [event for event in events if _get(_get(event, "content"), "parts") != []]


def _name_items(data: CaseData, part: CasePart, items: Items, numbers: Sequence[int]) -> tuple[str, ...]:
    """Name items of a case as texts from the eval set. `numbers` are its turns in the original case, from 0."""
    turns = _get_turns(data)
    if part is CasePart.TURNS:
        return tuple(str(numbers[turn] + 1) for turn in items)
    if part is CasePart.SENTENCES:
        texts = dict(_list_messages(turns))
        return tuple(texts[turn, number][sentence].strip() for turn, number, sentence in items)
    if part is CasePart.STATE:
        return tuple(map(str, items))
    names: list[str] = []
    for turn, call in items:
        calls, place = _list_call_places(turns[turn])[0][call]
        name = _get(_get(calls[place], "function_call") or calls[place], "name")
        names.append(f"{name or 'a call'} in turn {numbers[turn] + 1}")
    return tuple(names)


# Delta debugging.


def minimise(
    items: Sequence[Item], still_fails: Callable[[Sequence[Item]], bool], *, may_be_empty: bool, count: int = 2
) -> list[Item]:
    """Return a smallest part of `items` that still fails: without any one of its items it does not (ddmin).

    All `items` together must fail. Of 12 items of which 2 are needed it tests about 20 parts. At first `items` are
    split into `count` parts: many, if most are likely to be needed.
    """
    if may_be_empty and items and still_fails([]):
        return []
    kept = list(items)
    while len(kept) > 1:
        chunks = _split(kept, count)
        rests = ([item for chunk in chunks if chunk is not left_out for item in chunk] for left_out in chunks)
        smaller = next((chunk for chunk in chunks if still_fails(chunk)), None)
        if smaller is not None:
            kept, count = smaller, 2
            continue
        rest = next((rest for rest in rests if count > 2 and still_fails(rest)), None)
        if rest is not None:
            kept, count = rest, count - 1
        elif count < len(kept):
            count = min(2 * count, len(kept))
        else:
            break
    return kept


def _split(items: Sequence[Item], count: int) -> list[list[Item]]:
    """Split a list into parts of about the same length."""
    ends = [len(items) * number // count for number in range(count + 1)]
    return [list(items[start:end]) for start, end in pairwise(ends)]


# Shrinking a case.


@dataclass(frozen=True, slots=True, kw_only=True)
class ShrinkStep:
    """A candidate that was executed. `sizes` count its items; `executions` all executions so far.

    `part` is the part that was made smaller; None for the case itself. `left_out` names the items that the candidate
    lacks, compared with the smallest case before it: numbers of original turns, sentences, state keys, or calls.
    """

    part: CasePart | None
    left_out: tuple[str, ...]
    data: CaseData
    sizes: Mapping[CasePart, int]
    outcome: CandidateOutcome
    executions: int
    seconds: float
    variants: Sequence[Variant]

    @property
    def is_smallest(self) -> bool:
        """True if it fails the same way, so that the following candidates are parts of it."""
        return self.outcome is CandidateOutcome.SAME

    def __str__(self) -> str:
        """Return what was left out, with texts of the eval set."""
        if self.part is None:
            return "the case itself"
        if self.part is CasePart.TURNS:
            numbers = format_numbers([int(number) - 1 for number in self.left_out])
            return f"without turn{'s' if len(self.left_out) > 1 else ''} {numbers}"
        if self.part is CasePart.SENTENCES:
            return f"without {', '.join(json.dumps(text, ensure_ascii=False) for text in self.left_out)}"
        one = self.part.value.removesuffix("s")
        return f"without {one if len(self.left_out) == 1 else self.part.value} {', '.join(self.left_out)}"


@dataclass(frozen=True, kw_only=True)
class Shrunk:
    """The result of shrinking.

    `outcome` is that of the case itself: the rest has a meaning only if it is SAME. None: the user stopped before it
    was known. `data` is the smallest case, `turns` its turns as numbers (from 0) of the original ones. `untried` are
    the parts that might be smaller: the budget was used up, the user stopped (`is_interrupted`), or the agent failed:
    `error` is the reason. `changed_files` are files of the agent that changed meanwhile.
    """

    case: CaseKey
    outcome: CandidateOutcome | None
    failure: Failing
    original: CaseData
    data: CaseData
    turns: Sequence[int]
    executions: int
    untried: Sequence[CasePart] = ()
    is_interrupted: bool = False
    error: str = ""
    steps: Sequence[ShrinkStep] = ()
    changed_files: Sequence[str] = ()

    @property
    def is_smaller(self) -> bool:
        """True if something was left out."""
        return self.data != self.original


def format_numbers(places: Sequence[int]) -> str:
    """Format positions from 0 as numbers from 1, with ranges: 1-3, 9."""
    ranges: list[tuple[int, int]] = []
    for place in places:
        if ranges and ranges[-1][1] == place:
            ranges[-1] = (ranges[-1][0], place + 1)
        else:
            ranges.append((place + 1, place + 1))
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges)


def explain_outcome(found: Shrunk, *, repeats: int) -> str:
    """Explain why there is nothing to shrink in a case whose outcome is not SAME."""
    results = [variant.result for step in found.steps[:1] for variant in step.variants]
    if found.outcome is CandidateOutcome.ERROR:
        failures = [each.failure.message for each in results if each.failure is not None]
        failures += [metric.reason or metric.name for each in results for metric in each.metrics if not each.failure]
        why = failures[0] if failures else "no reason is known"
        return f"{found.case} ended in ERROR, which is not a failure to shrink: {why}"
    if found.outcome is CandidateOutcome.MIXED:
        failed = sum(each.status.value == "FAILED" for each in results)
        return (
            f"{found.case} is flaky: {failed} of {repeats} executions failed, and not all in the same way; nothing was "
            "changed (see `workbench flaky`)"
        )
    if found.outcome is CandidateOutcome.OTHER:
        return f"{found.case} fails, but not by this criterion; nothing was changed"
    return f"{found.case} did not fail now, so there is nothing to shrink; nothing was changed"


def explain_untried(found: Shrunk) -> str:
    """Explain which parts were not tried to the end, and why; empty if all were."""
    if found.outcome is not CandidateOutcome.SAME or not found.untried:
        return ""
    reason = explain_end("the smallest case", is_interrupted=found.is_interrupted, error=found.error)
    return f"not tried to the end ({reason}): {', '.join(part.value for part in found.untried)}"


@dataclass(kw_only=True)
class Shrinker:
    """Shrinks one case. `report` gets every step as it ends; `announce` what is tried next.

    `budget` may change at any time, from any thread.
    """

    executor: CaseExecutor
    test: FailureTest
    budget: int
    repeats: int = 1
    report: Callable[[ShrinkStep], None] = lambda _: None
    announce: Callable[[str], None] = lambda _: None
    _outcome: CandidateOutcome | None = None
    _executions: int = 0
    _known: dict[str, CandidateOutcome] = field(default_factory=dict)
    _tried: dict[CasePart, CaseData] = field(default_factory=dict)
    _steps: list[ShrinkStep] = field(default_factory=list)
    _errors: list[str] = field(default_factory=list)  # the newest candidates, if they ended in ERROR
    _next_check: int = ERRORS_IN_A_ROW

    def shrink(self) -> Shrunk:
        """Shrink the case. Raises PlanError for unknown criteria.

        Another call continues after an interruption or an error, or with a larger budget.
        """
        if self._outcome is None:
            self._smallest = self.executor.data
            self._turns: Sequence[int] = range(len(_get_turns(self._smallest)))
        is_interrupted, problem = run_search(self._search)
        return self.make_result(is_interrupted=is_interrupted, error=problem)

    def make_result(self, *, is_interrupted: bool, error: str = "") -> Shrunk:
        """Return what is known so far. Only called after `shrink`, which may have raised an exception."""
        return Shrunk(
            case=self.executor.key,
            outcome=self._outcome,
            failure=self.test.failure,
            original=self.executor.data,
            data=self._smallest,
            turns=self._turns,
            executions=self._executions,
            untried=[part for part in self._list_untried() if _can_shrink(self._smallest, part)],
            is_interrupted=is_interrupted,
            error=error,
            steps=tuple(self._steps),
            changed_files=self.executor.changed_files,
        )

    def _search(self) -> None:
        self._outcome = self._outcome or self._execute_original()
        if self._outcome is CandidateOutcome.SAME:
            self._shrink_parts()

    def _execute_original(self) -> CandidateOutcome:
        """Execute the case itself, all its repeats: they must all fail in the same way."""
        data = self.executor.data
        self.announce("the case itself")
        started = time.monotonic()
        first = self._execute(data, 0)
        self.test.set_failure(first)
        variants = [first, *(self._execute(data, repeat) for repeat in range(1, self.repeats))]
        outcomes = {self.test.classify(each) for each in variants}
        outcome = outcomes.pop() if len(outcomes) == 1 else CandidateOutcome.MIXED
        self._add_step(None, data, outcome, variants, started=started)
        return outcome

    def _list_untried(self) -> list[CasePart]:
        """Return the parts that may be made smaller in the smallest case: another part may have shrunk since."""
        return [part for part in CasePart if self._tried.get(part) != self._smallest]

    def _shrink_parts(self) -> None:
        """Shrink one part after the other, until none becomes smaller."""
        while untried := self._list_untried():
            for part in untried:
                self._shrink_part(part)
                self._tried[part] = self._smallest

    def _shrink_part(self, part: CasePart) -> None:
        for number in range(len(list(list_reductions(self._smallest, part)))):
            # The lists are read again, because the case may be smaller now; their number stays the same.
            reduction = list(list_reductions(self._smallest, part))[number]
            self._shrink_items(reduction)

    def _shrink_items(self, reduction: Reduction) -> None:
        data, turns = self._smallest, self._turns
        is_new = reduction.part not in self._tried
        smallest = list(reduction.items)

        def still_fails(kept: Sequence[Any]) -> bool:
            nonlocal smallest
            candidate = reduction.keep(data, kept)
            left_out = [item for item in smallest if item not in kept]
            names = _name_items(data, reduction.part, left_out, turns)
            if not self._still_fails(reduction.part, candidate, names):
                return False
            self._smallest, smallest = candidate, list(kept)
            if reduction.part is CasePart.TURNS:
                self._turns = [turns[turn] for turn in kept]
            return True

        items = reduction.items
        last = self.test.failure.last_turn
        if reduction.part is CasePart.TURNS and is_new and last is not None and last + 1 < len(items):
            beginning = items[: last + 1]  # what follows the failure is rarely its cause
            items = beginning if still_fails(beginning) else items
        count = 2 if is_new else max(2, len(items))
        minimise(items, still_fails, may_be_empty=reduction.may_be_empty, count=count)

    def _still_fails(self, part: CasePart, data: CaseData, left_out: tuple[str, ...]) -> bool:
        """Return True if a candidate fails the same way in every repeat. Equal candidates are executed once."""
        name = json.dumps(data, sort_keys=True)
        if name not in self._known:
            self._known[name] = self._execute_candidate(part, data, left_out)
        return self._known[name] is CandidateOutcome.SAME

    def _execute_candidate(self, part: CasePart, data: CaseData, left_out: tuple[str, ...]) -> CandidateOutcome:
        if not self.executor.is_valid(data):
            return CandidateOutcome.ERROR
        sizes = measure_case(data)
        self.announce(f"{sizes[part]} of {measure_case(self._smallest)[part]} {part.value}")
        started = time.monotonic()
        variants: list[Variant] = []
        outcome = CandidateOutcome.SAME
        for repeat in range(self.repeats):
            variants.append(self._execute(data, repeat))
            found = self.test.classify(variants[-1], whole=self._smallest_variant if part is CasePart.CALLS else None)
            if found is not CandidateOutcome.SAME:
                outcome = CandidateOutcome.MIXED if repeat else found
                break
        self._add_step(part, data, outcome, variants, started=started, left_out=left_out)
        if outcome is CandidateOutcome.ERROR:
            self._check_agent(data)
        else:
            self._errors, self._next_check = [], ERRORS_IN_A_ROW
        return outcome

    def _check_agent(self, data: CaseData) -> None:
        """Execute the smallest case again after some errors in a row. Raises AgentFailed if it ends in ERROR, too.

        Then the errors say nothing about the candidates, and another search tries them again.
        """
        self._errors.append(json.dumps(data, sort_keys=True))
        if len(self._errors) < self._next_check:
            return
        self._next_check *= 2
        self.announce("the smallest case again, after errors")
        variant = self._execute(self._smallest, 0, replays=False)
        if self.test.classify(variant) is CandidateOutcome.ERROR:
            for name in self._errors:
                del self._known[name]
            self._errors, self._next_check = [], ERRORS_IN_A_ROW
            raise AgentFailed(variant.result)

    def _execute(self, data: CaseData, repeat: int, *, replays: bool = True) -> Variant:
        if self._executions >= self.budget:
            raise BudgetUsedUp
        self._executions += 1
        return self.executor.execute(data, repeat=repeat, instructions={}, replays=replays)

    def _add_step(
        self,
        part: CasePart | None,
        data: CaseData,
        outcome: CandidateOutcome,
        variants: Sequence[Variant],
        *,
        started: float,
        left_out: tuple[str, ...] = (),
    ) -> None:
        self._known[json.dumps(data, sort_keys=True)] = outcome
        if outcome is CandidateOutcome.SAME:
            self._smallest_variant = variants[0]
        step = ShrinkStep(
            part=part,
            left_out=left_out,
            data=data,
            sizes=measure_case(data),
            outcome=outcome,
            executions=self._executions,
            seconds=time.monotonic() - started,
            variants=variants,
        )
        self._steps.append(step)
        self.report(step)


def _can_shrink(data: CaseData, part: CasePart) -> bool:
    return any(len(each.items) > (0 if each.may_be_empty else 1) for each in list_reductions(data, part))
