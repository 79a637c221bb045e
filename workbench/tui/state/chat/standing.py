"""How a chat stands, in one line: at work, answered, over, or not begun."""

from __future__ import annotations

from workbench.model.text import redact
from workbench.tui.state.amounts import duration
from workbench.tui.state.chat.conversation import Conversation, Phase
from workbench.tui.state.chat.lines import tokens_of
from workbench.tui.state.chat.target_chat import TargetChat
from workbench.tui.state.pieces import Line, Piece, Tone, plural, safe_line

_SPINNER = "◐◓◑◒"
_SPINS = 4  # times a second


def standing_line(chat: TargetChat, *, now: float) -> Line:
    """What the agent is doing, or what can be done next. `now` is of the clock that turns began by."""
    conversation = chat.conversation
    if chat.problem:
        return (Piece(f" ! {safe_line(redact(chat.problem))}", Tone.ERROR),)
    if chat.is_opening or conversation is None:
        return (
            Piece(
                " opening a session …" if chat.is_opening else " no session yet; it begins with what you say",
                Tone.MUTED,
            ),
        )
    if conversation.is_busy:
        return _at_work(conversation, now=now)
    if conversation.ended is not None:
        return _over(conversation)
    return _at_rest(conversation)


def _at_work(conversation: Conversation, *, now: float) -> Line:
    turn = conversation.under_way
    elapsed = now - turn.began if turn is not None else 0.0
    doing = safe_line(turn.tool_under_way) if turn is not None else ""
    pieces = [Piece(f" {_SPINNER[int(now * _SPINS) % len(_SPINNER)]} {elapsed:.1f} s", Tone.RUNNING)]
    pieces.append(Piece(f"  {doing}", Tone.KEY) if doing else Piece("  waiting for the agent", Tone.MUTED))
    if conversation.waiting:
        pieces.append(Piece(f" · {plural(conversation.waiting, 'turn')} to follow", Tone.MUTED))
    return tuple(pieces)


def _over(conversation: Conversation) -> Line:
    lost, ended = conversation.lost, conversation.ended
    if lost is not None and lost.phase is Phase.CANCELLED:
        return (Piece(" ■ stopped: the session is over", Tone.WARNING),)
    if lost is not None or (ended is not None and ended.failure is not None):
        return (Piece(" ! the session is over", Tone.ERROR),)
    return (Piece(" the session is over", Tone.MUTED),)


def _at_rest(conversation: Conversation) -> Line:
    facts = [plural(len(conversation.answered), "turn")]
    spent = [tokens for turn in conversation.answered if (tokens := tokens_of(turn)) is not None]
    if spent:
        facts.append(plural(sum(spent), "token"))
    took = sum(turn.duration_seconds or 0.0 for turn in conversation.answered)
    if took:
        facts.append(duration(took))
    return (Piece(f" {' · '.join(facts)}", Tone.MUTED),)
