"""The lines that a diff is made of: texts, what they belong to, what each difference cost."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from workbench.engine.acceptance import Hunk
from workbench.metrics.call_matching import RuleError, read_argument_rules
from workbench.metrics.metric_types import Options
from workbench.model.criteria import Criterion
from workbench.model.evalset import Content, ConversationScenario, EvalCase, UserPersona
from workbench.model.results import (
    CaseResult,
    ConversationEnd,
    MetricResult,
    MetricStatus,
    SimulatedConversation,
    TurnResult,
)
from workbench.model.text import mask_named_secrets, neutralise, pluralise, redact
from workbench.model.trace import ToolCall, get_trajectory
from workbench.report.text_report import compare_numbers, find_subjects, score_text
from workbench.report.turn_diff import (
    Change,
    Difference,
    DifferenceKind,
    Passage,
    TurnComparison,
    compare_words,
    list_messages,
)
from workbench.tui.state.text_layout import (
    BLANK,
    MOST_CHARACTERS,
    Block,
    Paragraph,
    Side,
    SideBySide,
    Style,
    StyledText,
    plural,
    safe_line,
)

# What a difference cost: which criteria lost points by it, and whether those that looked at it forgave it.

_CALLS = frozenset({DifferenceKind.CALL_MISSING, DifferenceKind.CALL_EXTRA, DifferenceKind.CALL_MOVED})
_ARGUMENTS = frozenset(
    {DifferenceKind.ARGUMENT_MISSING, DifferenceKind.ARGUMENT_EXTRA, DifferenceKind.ARGUMENT_CHANGED}
)
_SUBJECTS: Mapping[DifferenceKind, str] = {
    **dict.fromkeys(_CALLS | _ARGUMENTS, "calls"),
    DifferenceKind.RESPONSE_CHANGED: "response",
    DifferenceKind.STATE_CHANGED: "state",
}
"""What a criterion has to look at to mind a difference; what is not named here no criterion of today minds."""

_MATCH_TYPES = ("EXACT", "IN_ORDER", "ANY_ORDER")  # also by their numbers, as ADK writes them
_FORGIVEN: Mapping[str, frozenset[DifferenceKind]] = {
    "IN_ORDER": frozenset({DifferenceKind.CALL_EXTRA}),
    "trajectory_in_order_match": frozenset({DifferenceKind.CALL_EXTRA}),
    "ANY_ORDER": frozenset({DifferenceKind.CALL_EXTRA, DifferenceKind.CALL_MOVED}),
    "trajectory_any_order_match": frozenset({DifferenceKind.CALL_EXTRA, DifferenceKind.CALL_MOVED}),
    "trajectory_precision": frozenset({DifferenceKind.CALL_MISSING, DifferenceKind.CALL_MOVED}),
    "trajectory_recall": frozenset({DifferenceKind.CALL_EXTRA, DifferenceKind.CALL_MOVED}),
    "trajectory_unordered_match": frozenset({DifferenceKind.CALL_MOVED}),
    "trajectory_subset_match": frozenset({DifferenceKind.CALL_MISSING, DifferenceKind.CALL_MOVED}),
    "trajectory_superset_match": frozenset({DifferenceKind.CALL_EXTRA, DifferenceKind.CALL_MOVED}),
}
"""Which differences in calls a way of matching does not mind."""


@dataclass(frozen=True, slots=True)
class Note:
    """A criterion that lost points, in words for one line."""

    text: str
    style: Style


@dataclass(frozen=True, slots=True)
class Cost:
    """What one difference cost. `notes` name the criteria whose first one it is; `is_free`: it cost nothing."""

    notes: tuple[Note, ...] = ()
    is_free: bool = False


class TurnCosts:
    """What the differences of one turn cost, or those of the final state (`turn` None), told in their order.

    `metrics` is None where nothing has been judged yet: then nothing is known to be free.
    """

    def __init__(
        self, metrics: Sequence[MetricResult] | None, turn: int | None, comparison: TurnComparison | None
    ) -> None:
        self._metrics = metrics
        self._turn = turn
        self._comparison = comparison
        self._named: set[str] = set()

    def compute(self, difference: Difference) -> Cost:
        """What a difference cost."""
        if self._metrics is None:
            return Cost()
        subject = _SUBJECTS.get(difference.kind)
        judges = [
            metric for metric in self._metrics if subject in find_subjects(metric.name) and self._has_verdict(metric)
        ]
        losers = [metric for metric in judges if self._lost_points(metric, difference)]
        # A criterion of the user's own may look at anything: what it minded is not known, so it is not named.
        first = [
            metric for metric in losers if metric.name not in self._named and find_subjects(metric.name) == (subject,)
        ]
        self._named.update(metric.name for metric in first)
        return Cost(tuple(map(self._note, first)), is_free=not any(map(self._is_below_threshold, losers)))

    def _score(self, metric: MetricResult) -> float | None:
        if self._turn is None or not metric.per_invocation:
            return metric.score
        return metric.per_invocation[self._turn].score if self._turn < len(metric.per_invocation) else None

    def _has_verdict(self, metric: MetricResult) -> bool:
        return metric.status in (MetricStatus.PASSED, MetricStatus.FAILED) and self._score(metric) is not None

    def _is_below_threshold(self, metric: MetricResult) -> bool:
        score, threshold = self._score(metric), metric.threshold
        return score is not None and threshold is not None and (score < threshold or metric.status is _FAILED)

    def _lost_points(self, metric: MetricResult, difference: Difference) -> bool:
        score = self._score(metric)
        if score is None or score >= 1.0:
            return False
        if difference.kind in _CALLS | _ARGUMENTS:
            return not _forgives(metric, difference, self._comparison)
        return True

    def _note(self, metric: MetricResult) -> Note:
        score, threshold = self._score(metric), metric.threshold
        assert score is not None
        assert threshold is not None
        sign = "≥" if score >= threshold else compare_numbers(score, threshold)
        text = f"{safe_line(metric.name)} {score_text(score, threshold)} {sign} {score_text(threshold, score)}"
        if score >= threshold:
            return Note(text, Style.MUTED)
        return Note(text, Style.FAILED if metric.status is _FAILED else Style.WARNING)


_FAILED = MetricStatus.FAILED


def _forgives(metric: MetricResult, difference: Difference, comparison: TurnComparison | None) -> bool:
    """Whether the metric does not mind a difference in calls, by its own rules."""
    details = metric.details
    if "tool_name" in details:  # it asks whether one tool was called at all
        return difference.kind is not DifferenceKind.CALL_MISSING or difference.tool != details["tool_name"]
    if difference.kind in _ARGUMENTS:
        return bool(details.get("ignore_args")) or _do_arguments_match(details, difference, comparison)
    return difference.kind in _FORGIVEN.get(_find_match_type(metric), frozenset())


def _find_match_type(metric: MetricResult) -> str:
    written = metric.details.get("match_type")
    if isinstance(written, int) and 0 <= written < len(_MATCH_TYPES):
        return _MATCH_TYPES[written]
    if isinstance(written, str):
        return written.strip().upper().replace("-", "_").replace(" ", "_")
    return metric.name


def _do_arguments_match(details: Mapping[str, Any], difference: Difference, comparison: TurnComparison | None) -> bool:
    """Whether the rules for arguments take the two calls for the same."""
    expected, actual = difference.expected_call, difference.actual_call
    if "args_match" not in details or comparison is None or expected is None or actual is None:
        return False
    options = Options(Criterion(metric="", options={"args_match": details["args_match"]}))
    rules = read_argument_rules(options)
    wanted, given = comparison.expected.calls[expected], comparison.actual.calls[actual]
    try:
        return rules is not None and rules.fits(ToolCall(*given), ToolCall(*wanted))
    except RuleError:
        return False


# What a diff is made of, and how much of it is wanted.


class Level(Enum):
    """How much is shown of what is as expected."""

    EVERYTHING = "everything"
    FOLDED = "equal turns folded"
    DIFFERENCES = "only differences"


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffSource:
    """A case beside what the agent did: `turns` so far, `result` None while it has not been judged.

    `spoken` is what a simulated user has said and the agent not answered yet; `is_live` whether the agent runs. `case`
    is None where it could not be read. `head` stands before all else. At most `most` characters are shown of one text
    (None: all). `lacks_expected`: of what the turns may have been held against nothing is stored. `is_row`: it is a row
    of a dataset, where a side without trajectory tells nothing of calls.
    """

    case: EvalCase | None
    turns: Sequence[TurnResult] = ()
    spoken: Content | None = None
    is_live: bool = False
    result: CaseResult | None = None
    head: tuple[Block, ...] = ()
    level: Level = Level.EVERYTHING
    most: int | None = MOST_CHARACTERS
    lacks_expected: bool = False
    is_row: bool = False

    @property
    def is_recorded(self) -> bool:
        """Whether it is a row that was judged as it stands; see CaseResult."""
        return self.is_row and self.result is not None and not self.result.execution.duration_seconds

    @property
    def is_scenario(self) -> bool:
        """Whether a simulated user holds the conversation."""
        return self.case is not None and self.case.conversation_scenario is not None


@dataclass(frozen=True, slots=True)
class DiffContent:
    """Blocks, and for each the difference that it belongs to (None: to none), as a place in `hunks`.

    `hunks` are the differences in the order in which they are shown, `costs` what each cost.
    """

    blocks: tuple[Block, ...] = ()
    owners: tuple[int | None, ...] = ()
    hunks: tuple[Hunk, ...] = ()
    costs: tuple[Cost, ...] = ()


# Texts and values side by side: what differs in them word by word, made safe, and cut only where that is said.

ABSENT = object()
"""A value that one side does not have, which is not null."""

_WORTH_COMPARING = 12
"""Characters of a value from which on its words are compared; shorter ones are read faster as a whole."""


class StyledTexts:
    """Makes pieces of texts from outside, at most `most` characters of each (None: all of it)."""

    def __init__(self, most: int | None = MOST_CHARACTERS) -> None:
        self._most = most

    def style(self, text: str, style: Style = Style.TEXT) -> tuple[StyledText, ...]:
        """One text in one style."""
        return self._pieces([(text, style)])

    def style_both(self, expected: str, actual: str) -> tuple[tuple[StyledText, ...], tuple[StyledText, ...]]:
        """Both sides of a text, the words that differ in styles of their own where others stayed the same."""
        passages = compare_words(expected, actual)
        return self._side(passages, Change.REMOVED), self._side(passages, Change.ADDED)

    def style_values(
        self, expected: Any, actual: Any, name: str = ""
    ) -> tuple[tuple[StyledText, ...], tuple[StyledText, ...]]:
        """Both sides of a value as JSON; words are compared in long texts. `name` is the key of the value."""
        wanted, given = json_text(expected, name), json_text(actual, name)
        if isinstance(expected, str) and isinstance(actual, str) and min(len(wanted), len(given)) >= _WORTH_COMPARING:
            return self.style_both(wanted, given)
        return self.style(wanted), self.style(given)

    def _side(self, passages: Iterable[Passage], own: Change) -> tuple[StyledText, ...]:
        shown = [passage for passage in passages if passage.change in (Change.SAME, own)]
        word = Style.REMOVED_WORD if own is Change.REMOVED else Style.ADDED_WORD
        if all(passage.change is own for passage in shown):
            word = Style.TEXT  # where nothing stayed the same, nothing needs to stand out
        return self._pieces([(text, word if change is own else Style.TEXT) for change, text in shown])

    def _pieces(self, runs: Iterable[tuple[str, Style]]) -> tuple[StyledText, ...]:
        pieces: list[StyledText] = []
        left, hidden, differs = self._most, 0, False
        for text, style in runs:
            kept = text if left is None else text[:left]
            if kept:
                pieces.append(StyledText(_safe(kept), style))
            if left is not None:
                left -= len(kept)
            hidden += len(text) - len(kept)
            differs = differs or (len(kept) < len(text) and style in (Style.REMOVED_WORD, Style.ADDED_WORD))
        if hidden:
            note = ", some of them different" if differs else ""
            pieces.append(StyledText(f"\n… {pluralise(hidden, 'more character')}{note}: W shows all", Style.MUTED))
        return tuple(pieces)


def json_text(value: Any, name: object = "") -> str:
    """A value as JSON, as it is written in files, without secrets. `name` is its key, which may say that it is one."""
    return redact(json.dumps(mask_named_secrets(value, name), ensure_ascii=False, default=repr))


def _safe(text: str) -> str:
    return neutralise(text).replace("\t", "    ")


# A conversation with a simulated user: there is no expected side, so it has the whole width.

_NAME = 7  # columns of a speaker's name


def scenario_blocks(source: DiffSource, texts: StyledTexts) -> Iterator[Block]:
    """What the user of a scenario wants, who it is, and how a model played it."""
    scenario = source.case.conversation_scenario if source.case is not None else None
    if scenario is None:
        return
    yield Paragraph.from_text("a simulated user holds this conversation", Style.HEADING)
    yield Paragraph((StyledText("starts with  ", Style.KEY), *texts.style(scenario.starting_prompt)), indent=2, hang=2)
    yield Paragraph((StyledText("plan  ", Style.KEY), *texts.style(scenario.conversation_plan)), indent=2, hang=2)
    if scenario.user_persona is not None:
        yield Paragraph(
            (StyledText("persona  ", Style.KEY), StyledText(safe_line(_persona(scenario)))), indent=2, hang=2
        )
    simulation = source.result.execution.simulation if source.result is not None else None
    if simulation is not None:
        yield Paragraph((StyledText("played by  ", Style.KEY), StyledText(_player(simulation))), indent=2, hang=2)
    yield BLANK


def played_blocks(source: DiffSource, texts: StyledTexts) -> Iterator[Block]:
    """The conversation as far as it has come, and how it ended."""
    for number, turn in enumerate(source.turns):
        yield from _turn(number, turn, texts)
    if source.spoken is not None:
        yield _user(len(source.turns), source.spoken, texts)
        yield Paragraph.from_text("the agent is answering …", Style.MUTED, indent=_NAME)
    elif source.is_live and source.turns:
        yield Paragraph.from_text("the user is thinking …", Style.MUTED)
    simulation = source.result.execution.simulation if source.result is not None else None
    if simulation is not None:
        yield from _end_blocks(simulation, source.turns)
    yield BLANK


def _turn(number: int, turn: TurnResult, texts: StyledTexts) -> Iterator[Block]:
    yield _user(number, turn.invocation.user_content, texts)
    for call in get_trajectory(turn.invocation):
        arguments = json_text(call.args or {})
        pieces = (
            StyledText("ƒ ", Style.KEY),
            StyledText(safe_line(call.name), Style.STRONG),
            StyledText(" "),
            *texts.style(arguments),
        )
        yield Paragraph(pieces, indent=_NAME, hang=2)
    for said in list_messages(turn.invocation):
        yield Paragraph((_name(said.author), *texts.style(said.text, Style.MUTED)), hang=_NAME)
    response = turn.invocation.final_response
    words = "" if response is None else response.text(thoughts=False)
    told = texts.style(words) if words else (StyledText("(nothing)", Style.MUTED),)
    yield Paragraph((_name("agent"), *told), hang=_NAME)


def _user(number: int, content: Content, texts: StyledTexts) -> Paragraph:
    head = StyledText(f"turn {number + 1} · user  ", Style.HEADING)
    return Paragraph((head, *texts.style(content.text(thoughts=False))), hang=2)


def _name(name: str) -> StyledText:
    return StyledText(f"{safe_line(name, width=30):<{_NAME}}", Style.KEY)


def _end_blocks(simulation: SimulatedConversation, turns: Sequence[TurnResult]) -> Iterator[Block]:
    match simulation.end:
        case ConversationEnd.STOP_SIGNAL:
            yield Paragraph.from_text(f"the user has finished, after {plural(len(turns), 'turn')}", Style.MUTED)
        case ConversationEnd.LIMIT:
            text = f"stopped at the limit of {plural(simulation.limit or 0, 'turn')}: the user had not finished. "
            advice = "Set max_allowed_invocations above the longest reasonable conversation."
            yield Paragraph.from_text(f"! {text}{advice}", Style.WARNING, hang=2)


def _persona(scenario: ConversationScenario) -> str:
    persona = scenario.user_persona
    return f"{persona.id}: {persona.description}" if isinstance(persona, UserPersona) else persona or ""


def _player(simulation: SimulatedConversation) -> str:
    if simulation.scripted:
        return safe_line(f"a script, as there is no key for {simulation.model}")
    cached = f", {simulation.cached} of them cached" if simulation.cached else ""
    return safe_line(f"{simulation.model}, {plural(simulation.calls, 'answer')}{cached}")


# Collects the blocks of a diff, and which difference each of them shows.


class DiffWriter:
    """The blocks so far."""

    def __init__(self, texts: StyledTexts) -> None:
        self.texts = texts
        self._blocks: list[Block] = []
        self._owners: list[int | None] = []
        self._hunks: list[Hunk] = []
        self._costs: list[Cost] = []
        self._places: dict[int, int] = {}  # of differences, by identity: each is one object

    def add(self, *blocks: Block) -> None:
        """Add blocks that show no difference."""
        self.extend(blocks)

    def extend(self, blocks: Iterable[Block], owner: int | None = None) -> None:
        """Add blocks, of the difference at a place where `owner` is given."""
        for block in blocks:
            self._blocks.append(block)
            self._owners.append(owner)

    def add_sides(self, expected: Side | None, actual: Side | None) -> None:
        """Add two sides that do not differ, or are not compared."""
        self.add(SideBySide(expected, actual))

    def add_difference(
        self, turn: int | None, found: Difference, costs: TurnCosts, rows: Iterable[tuple[Side | None, Side | None]]
    ) -> None:
        """Add a difference as rows of both sides, and the criteria that lost points by it.

        One that is shown in two places, as a call that moved, is told of once.
        """
        place = self._places.get(id(found))
        if place is None:
            place = self._places[id(found)] = len(self._hunks)
            self._hunks.append(Hunk(turn=turn, difference=found))
            self._costs.append(costs.compute(found))
            notes = self._costs[place].notes
        else:
            notes = ()
        cost = self._costs[place]
        self.extend((SideBySide(left, right, differs=True, quiet=cost.is_free) for left, right in rows), place)
        self.extend((Paragraph.from_text(f"↳ {note.text}", note.style, indent=2, hang=2) for note in notes), place)

    def content(self) -> DiffContent:
        """All of it."""
        return DiffContent(tuple(self._blocks), tuple(self._owners), tuple(self._hunks), tuple(self._costs))


def name_side(name: str, note: str = "") -> Side:
    """A side that names a call or an author; both must be safe."""
    return Side((StyledText(name, Style.STRONG), StyledText(note, Style.MUTED)))
