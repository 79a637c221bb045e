"""The parts of a diff: its source, its blocks, its texts, and the points that each difference cost."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from string import ascii_letters
from typing import Any

from workbench.engine.acceptance import Hunk
from workbench.model.evalset import Content, ConversationScenario, EvalCase, UserPersona
from workbench.model.results import (
    CaseResult,
    ConversationEnd,
    MetricResult,
    MetricStatus,
    SimulatedConversation,
    TurnResult,
)
from workbench.model.text import compare_with_threshold, mask_named_secrets, neutralise, pluralise, redact
from workbench.model.trace import get_trajectory
from workbench.model.turn_diff import (
    Difference,
    Passage,
    PassageChange,
    TurnComparison,
    compare_words,
    list_messages,
)
from workbench.report.explanation import get_score, is_about, lost_points
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

# The cost of a difference: which criteria lost points because of it, and whether it cost nothing.


@dataclass(frozen=True, slots=True)
class Note:
    """A criterion that lost points, and its score compared with its threshold."""

    criterion: str
    comparison: str
    style: Style

    @property
    def text(self) -> str:
        """The text for one line."""
        return f"{self.criterion} {self.comparison}"


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of one difference. `notes` name the criteria that lost their first points here; `is_free`: no points."""

    notes: tuple[Note, ...] = ()
    is_free: bool = False


class TurnCosts:
    """Computes the costs of the differences of one turn, or of the final state (`turn` None), in their order.

    `metrics` is None before the case is scored; then no difference counts as free.
    """

    def __init__(
        self, metrics: Sequence[MetricResult] | None, turn: int | None, comparison: TurnComparison | None
    ) -> None:
        self._metrics = metrics
        self._turn = turn
        self._comparison = comparison
        self._named: set[str] = set()

    def compute(self, difference: Difference) -> Cost:
        if self._metrics is None:
            return Cost()
        losers = [
            metric
            for metric in self._metrics
            if metric.status in (MetricStatus.PASSED, MetricStatus.FAILED)
            and lost_points(metric, difference, turn=self._turn, comparison=self._comparison)
        ]
        # A custom criterion may score any subject, so its reason is unknown and it is not named.
        first = [metric for metric in losers if metric.name not in self._named and is_about(metric, difference)]
        self._named.update(metric.name for metric in first)
        return Cost(tuple(map(self._note, first)), is_free=not any(map(self._is_below_threshold, losers)))

    def _is_below_threshold(self, metric: MetricResult) -> bool:
        score, threshold = get_score(metric, self._turn), metric.threshold
        return score is not None and threshold is not None and (score < threshold or metric.status is _FAILED)

    def _note(self, metric: MetricResult) -> Note:
        score, threshold = get_score(metric, self._turn), metric.threshold
        assert score is not None
        assert threshold is not None
        style = Style.FAILED if metric.status is _FAILED else Style.WARNING
        comparison = compare_with_threshold(score, threshold, metric=metric.name)
        return Note(safe_line(metric.name), comparison, Style.MUTED if score >= threshold else style)


_FAILED = MetricStatus.FAILED


# The source of a diff, its detail level, and its content.


class Level(Enum):
    """How many of the equal parts are shown."""

    EVERYTHING = "everything"
    FOLDED = "equal turns folded"
    DIFFERENCES = "only differences"


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffSource:
    """A case beside its execution: the `turns` so far, and the `result` once it is scored.

    `spoken` is a message of the simulated user that the agent has not answered yet. `is_live` says whether the agent is
    running. `case` is None if it could not be read. `head` comes first. At most `most` characters of a text are shown
    (None: all). `lacks_expected`: the expectation that the turns were scored against is not stored. `is_row`: it is a
    row of a dataset; the calls of a side without trajectory are unknown. `titles` are those of the sides.
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
    titles: tuple[str, str] = ("EXPECTED", "ACTUAL")

    @property
    def is_recorded(self) -> bool:
        """Whether it is a row that was scored without an agent run; see CaseResult."""
        return self.is_row and self.result is not None and not self.result.execution.duration_seconds

    @property
    def is_scenario(self) -> bool:
        """Whether the case is a scenario for a simulated user."""
        return self.case is not None and self.case.conversation_scenario is not None


@dataclass(frozen=True, slots=True)
class DiffContent:
    """The blocks of a diff; `owners` has the index in `hunks` of each block's difference, or None.

    `marks` has the letters for the gutter beside each block: those of the criteria that lost points there.
    `hunks` are the differences in the order on the screen, `costs` their costs.
    """

    blocks: tuple[Block, ...] = ()
    owners: tuple[int | None, ...] = ()
    marks: tuple[str, ...] = ()
    hunks: tuple[Hunk, ...] = ()
    costs: tuple[Cost, ...] = ()


# Texts and values side by side: compared word by word, made safe, and cut to a maximum length.

ABSENT = object()
"""A value that one side lacks; null is a value."""

_WORTH_COMPARING = 12
"""Minimum characters of a value for a comparison of its words. A shorter value is easier to read as a whole."""


class StyledTexts:
    """Makes styled texts from texts from outside, with at most `most` characters of each (None: all)."""

    def __init__(self, most: int | None = MOST_CHARACTERS) -> None:
        self._most = most

    def style(self, text: str, style: Style = Style.TEXT) -> tuple[StyledText, ...]:
        """Return one text in one style."""
        return self._pieces([(text, style)])

    def style_both(self, expected: str, actual: str) -> tuple[tuple[StyledText, ...], tuple[StyledText, ...]]:
        """Return both sides of a text. Changed words are highlighted if other words are equal."""
        passages = compare_words(expected, actual)
        return self._side(passages, PassageChange.REMOVED), self._side(passages, PassageChange.ADDED)

    def style_values(
        self, expected: Any, actual: Any, name: str = ""
    ) -> tuple[tuple[StyledText, ...], tuple[StyledText, ...]]:
        """Return both sides of a value as JSON. The words of long texts, lists and objects are compared.

        `name` is the key of the value.
        """
        wanted, given = json_text(expected, name), json_text(actual, name)
        if (
            type(expected) is type(actual)
            and isinstance(expected, str | list | dict)
            and min(len(wanted), len(given)) >= _WORTH_COMPARING
        ):
            return self.style_both(wanted, given)
        return self.style(wanted), self.style(given)

    def _side(self, passages: Iterable[Passage], own: PassageChange) -> tuple[StyledText, ...]:
        shown = [passage for passage in passages if passage.change in (PassageChange.SAME, own)]
        word = Style.REMOVED_WORD if own is PassageChange.REMOVED else Style.ADDED_WORD
        if all(passage.change is own for passage in shown):
            word = Style.TEXT  # without equal words, no word is highlighted
        runs: list[tuple[str, Style]] = []
        for change, text in shown:
            blanks = len(text) - len(text.lstrip(" ")) if change is own and text.strip() else 0
            runs += [(text[:blanks], Style.TEXT), (text[blanks:], word if change is own else Style.TEXT)]
        return self._pieces(run for run in runs if run[0])

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
    """Return a value as JSON without secrets. `name` is its key, which may be that of a secret."""
    return redact(json.dumps(mask_named_secrets(value, name), ensure_ascii=False, default=repr))


def _safe(text: str) -> str:
    return neutralise(text).replace("\t", "    ")


# A conversation with a simulated user: without an expected side, in the whole width.

_NAME = 7  # columns of a speaker's name


def scenario_blocks(source: DiffSource, texts: StyledTexts) -> Iterator[Block]:
    """Return the blocks of a scenario: prompt, plan, persona, and the model of the simulated user."""
    scenario = source.case.conversation_scenario if source.case is not None else None
    if scenario is None:
        return
    yield Paragraph.from_text("a simulated user holds this conversation", Style.HEADING)
    yield Paragraph((StyledText("starts with  ", Style.KEY), *texts.style(scenario.starting_prompt)), indent=2, hang=2)
    yield Paragraph((StyledText("plan  ", Style.KEY), *texts.style(scenario.conversation_plan)), indent=2, hang=2)
    if scenario.user_persona is not None:
        yield Paragraph.from_fact("persona", safe_line(_persona(scenario)), indent=2)
    simulation = source.result.execution.simulation if source.result is not None else None
    if simulation is not None:
        yield Paragraph.from_fact("played by", _player(simulation), indent=2)
    yield BLANK


def played_blocks(source: DiffSource, texts: StyledTexts) -> Iterator[Block]:
    """Return the blocks of the conversation so far, and of its end."""
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
    words = turn.invocation.response_text(thoughts=False)
    reply_pieces = texts.style(words) if words else (StyledText("(nothing)", Style.MUTED),)
    yield Paragraph((_name("agent"), *reply_pieces), hang=_NAME)


def _user(number: int, content: Content, texts: StyledTexts) -> Paragraph:
    head = StyledText(f"turn {number + 1} · user  ", Style.HEADING)
    return Paragraph((head, *texts.style(content.text_with_markers(thoughts=False))), hang=2)


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
        return safe_line(f"scripted replies, without an API key for {simulation.model}")
    cached = f", {simulation.cached} of them cached" if simulation.cached else ""
    return safe_line(f"{simulation.model}, {plural(simulation.calls, 'answer')}{cached}")


# The writer of a diff.


class DiffWriter:
    """Collects the blocks of a diff, with the difference of each block."""

    def __init__(self, texts: StyledTexts) -> None:
        self.texts = texts
        self._blocks: list[Block] = []
        self._owners: list[int | None] = []
        self._marks: list[str] = []
        self._footnotes: list[tuple[str, Note, int]] = []  # letter, criterion, index of the difference
        self._hunks: list[Hunk] = []
        self._costs: list[Cost] = []
        self._places: dict[int, int] = {}  # indexes in `_hunks`, by the identity of the difference

    def add(self, *blocks: Block) -> None:
        """Add blocks without a difference."""
        self.extend(blocks)

    def extend(self, blocks: Iterable[Block], owner: int | None = None) -> None:
        """Add blocks of the difference with the index `owner`, or without a difference."""
        for block in blocks:
            self._blocks.append(block)
            self._owners.append(owner)
            self._marks.append("")

    def add_sides(self, expected: Side | None, actual: Side | None) -> None:
        """Add two sides that are equal or not compared."""
        self.add(SideBySide(expected, actual))

    def add_difference(self, turn: int | None, found: Difference, costs: TurnCosts, rows: Iterable[SideBySide]) -> None:
        """Add a difference as rows of both sides, marked with the letters of the criteria that lost points by it.

        Rows that do not differ belong to it too, such as the equal items of a list.
        Only the first place is marked if the difference has two, as a moved call has.
        """
        place = self._places.get(id(found))
        if place is None:
            place = self._places[id(found)] = len(self._hunks)
            self._hunks.append(Hunk(turn=turn, difference=found))
            self._costs.append(costs.compute(found))
            notes = self._costs[place].notes
        else:
            notes = ()
        cost, start = self._costs[place], len(self._blocks)
        self.extend((replace(row, quiet=cost.is_free) for row in rows), place)
        for note in notes:
            letter = ascii_letters[len(self._footnotes) % len(ascii_letters)]
            self._footnotes.append((letter, note, place))
            self._marks[start] += letter

    def add_footnotes(self) -> None:
        """Add the criteria that lost points since the last call, each after its letter in the gutter."""
        for letter, note, place in self._footnotes:
            pieces = (StyledText(f"{letter} ", Style.MUTED), StyledText(note.text, note.style))
            self.extend([Paragraph(pieces, indent=2, hang=2)], place)
        self._footnotes.clear()

    def content(self) -> DiffContent:
        parts = tuple(self._blocks), tuple(self._owners), tuple(self._marks)
        return DiffContent(*parts, tuple(self._hunks), tuple(self._costs))


def name_side(name: str, note: str = "") -> Side:
    """Return a side with the name of a call or author. Both texts must be safe."""
    return Side((StyledText(name, Style.STRONG), StyledText(note, Style.MUTED)))
