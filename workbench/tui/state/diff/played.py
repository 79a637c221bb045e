"""A conversation with a simulated user: there is no expected side, so it has the whole width."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from workbench.model.evalset import Content, ConversationScenario, UserPersona
from workbench.model.results import ConversationEnd, SimulatedConversation, TurnResult
from workbench.model.trajectory import trajectory_of
from workbench.report.turns import said_in
from workbench.tui.state.blocks import BLANK, Block, Whole
from workbench.tui.state.diff.source import DiffSource
from workbench.tui.state.diff.texts import Texts, json_text
from workbench.tui.state.pieces import Piece, Tone, plural, safe_line

_NAME = 7  # columns of a speaker's name


def scenario_blocks(source: DiffSource, texts: Texts) -> Iterator[Block]:
    """What the user of a scenario wants, who it is, and how a model played it."""
    scenario = source.case.conversation_scenario if source.case is not None else None
    if scenario is None:
        return
    yield Whole.of("a simulated user holds this conversation", Tone.HEADING)
    yield Whole((Piece("starts with  ", Tone.KEY), *texts.of(scenario.starting_prompt)), indent=2, hang=2)
    yield Whole((Piece("plan  ", Tone.KEY), *texts.of(scenario.conversation_plan)), indent=2, hang=2)
    if scenario.user_persona is not None:
        yield Whole((Piece("persona  ", Tone.KEY), Piece(safe_line(_persona(scenario)))), indent=2, hang=2)
    simulation = source.result.execution.simulation if source.result is not None else None
    if simulation is not None:
        yield Whole((Piece("played by  ", Tone.KEY), Piece(_player(simulation))), indent=2, hang=2)
    yield BLANK


def played_blocks(source: DiffSource, texts: Texts) -> Iterator[Block]:
    """The conversation as far as it has come, and how it ended."""
    for number, turn in enumerate(source.turns):
        yield from _turn(number, turn, texts)
    if source.spoken is not None:
        yield _user(len(source.turns), source.spoken, texts)
        yield Whole.of("the agent is answering …", Tone.MUTED, indent=_NAME)
    elif source.is_live and source.turns:
        yield Whole.of("the user is thinking …", Tone.MUTED)
    simulation = source.result.execution.simulation if source.result is not None else None
    if simulation is not None:
        yield from _ending(simulation, source.turns)
    yield BLANK


def _turn(number: int, turn: TurnResult, texts: Texts) -> Iterator[Block]:
    yield _user(number, turn.invocation.user_content, texts)
    for call in trajectory_of(turn.invocation):
        arguments = json_text(call.args or {})
        pieces = (Piece("ƒ ", Tone.KEY), Piece(safe_line(call.name), Tone.STRONG), Piece(" "), *texts.of(arguments))
        yield Whole(pieces, indent=_NAME, hang=2)
    for said in said_in(turn.invocation):
        yield Whole((_name(said.author), *texts.of(said.text, Tone.MUTED)), hang=_NAME)
    response = turn.invocation.final_response
    words = "" if response is None else response.text(thoughts=False)
    told = texts.of(words) if words else (Piece("(nothing)", Tone.MUTED),)
    yield Whole((_name("agent"), *told), hang=_NAME)


def _user(number: int, content: Content, texts: Texts) -> Whole:
    head = Piece(f"turn {number + 1} · user  ", Tone.HEADING)
    return Whole((head, *texts.of(content.text(thoughts=False))), hang=2)


def _name(name: str) -> Piece:
    return Piece(f"{safe_line(name, width=30):<{_NAME}}", Tone.KEY)


def _ending(simulation: SimulatedConversation, turns: Sequence[TurnResult]) -> Iterator[Block]:
    match simulation.end:
        case ConversationEnd.STOP_SIGNAL:
            yield Whole.of(f"the user has finished, after {plural(len(turns), 'turn')}", Tone.MUTED)
        case ConversationEnd.LIMIT:
            text = f"stopped at the limit of {plural(simulation.limit or 0, 'turn')}: the user had not finished. "
            advice = "Set max_allowed_invocations above the longest reasonable conversation."
            yield Whole.of(f"! {text}{advice}", Tone.WARNING, hang=2)


def _persona(scenario: ConversationScenario) -> str:
    persona = scenario.user_persona
    return f"{persona.id}: {persona.description}" if isinstance(persona, UserPersona) else persona or ""


def _player(simulation: SimulatedConversation) -> str:
    if simulation.scripted:
        return safe_line(f"a script, as there is no key for {simulation.model}")
    cached = f", {simulation.cached} of them cached" if simulation.cached else ""
    return safe_line(f"{simulation.model}, {plural(simulation.calls, 'answer')}{cached}")
