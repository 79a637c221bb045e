"""Why a session has no steps to show, and what can be done about it."""

from __future__ import annotations

from collections.abc import Iterator

from workbench.model.text import redact
from workbench.tui.state.blocks import BLANK, Block, Whole
from workbench.tui.state.pieces import Tone, safe
from workbench.tui.state.subject import Subject

_KEPT = (
    "The agent reported none, or this execution is an older one: the history keeps the steps of the five newest "
    "executions of each case by the same agent, and the results of many more."
)


def absence_of(subject: Subject) -> list[Block]:
    """What to show of a case in place of its steps."""
    return list(_blocks(subject))


def prompts_of(subject: Subject) -> tuple[str, ...]:
    """What the case has the user say, turn by turn, as far as that is known before it is said."""
    case = subject.case
    if case is None:
        return ()
    if case.conversation_scenario is not None:
        return (case.conversation_scenario.starting_prompt,)
    return tuple(invocation.user_content.text() for invocation in case.conversation or ())


def _blocks(subject: Subject) -> Iterator[Block]:
    result, record = subject.result, subject.record
    if subject.is_live:
        yield Whole.of("The agent is at work; none of its steps has ended yet.", Tone.RUNNING)
    elif result is None and record is not None and record.outstanding:
        yield Whole.of("The case waits for its turn to run.", Tone.MUTED)
    elif result is None and record is not None and record.outcomes:
        yield Whole.of("reading the stored result …", Tone.MUTED)
    elif result is None:
        yield Whole.of("The case has not run: there is nothing to trace.", Tone.STRONG)
        yield BLANK
        yield Whole.of("r runs it. What the agent does then shows here, step by step, while it happens.")
    elif result.failure is not None and not result.execution.turns:
        yield Whole.of("The agent did not get as far as a step.", Tone.STRONG)
        yield BLANK
        yield Whole.of(f"! {redact(safe(result.failure.message))}", Tone.ERROR)
    elif not result.execution.turns:
        yield Whole.of("The agent was not run in this case, so there is nothing to trace.", Tone.STRONG)
    elif result.is_recorded:
        yield Whole.of("There are no steps of this row.", Tone.STRONG)
        yield BLANK
        yield Whole.of("It was judged as it stands: no agent ran.")
    else:
        yield Whole.of("There are no steps of this execution.", Tone.STRONG)
        yield BLANK
        yield Whole.of(_KEPT if _is_stored(subject) else "The agent reported none.")
        yield BLANK
        yield Whole.of("r runs the case again.", Tone.MUTED)


def _is_stored(subject: Subject) -> bool:
    """Whether the result comes from the history rather than from this session."""
    if subject.pinned is not None or subject.record is None or subject.repeat is None:
        return True
    outcome = subject.record.outcomes.get(subject.repeat)
    return outcome is None or outcome.stored_at is not None
