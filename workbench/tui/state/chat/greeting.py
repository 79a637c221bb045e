"""What stands in a chat before anything was said: how the session will start, and what can be done."""

from __future__ import annotations

import json
from collections.abc import Iterator

from workbench.model.evalset import EvalCase
from workbench.model.text import mask_named, redact
from workbench.tui.state.blocks import BLANK, Block, Whole
from workbench.tui.state.chat.target_chat import TargetChat
from workbench.tui.state.pieces import Piece, Tone, plural, safe, safe_line


def greeting(chat: TargetChat, case: EvalCase | None) -> Iterator[Block]:
    """The blocks of a chat without a session; `case` is the selected one."""
    if not chat.target:
        yield Whole.of("There is no agent to talk to here.", Tone.STRONG)
        yield Whole.of("Select an agent, or an eval set or case of one.", Tone.MUTED)
        return
    yield Whole.of(f"Talk to {safe_line(chat.target)}", Tone.STRONG)
    yield Whole.of("Each session has a process of its own and the code of the agent as it is then.", Tone.MUTED)
    yield BLANK
    given = chat.session_input
    yield _fact("app", given.app_name or "named like the agent")
    yield _fact("user", given.user_id or "the default one")
    yield _fact("state", redact(json.dumps(mask_named(given.state), ensure_ascii=False)) if given.state else "empty")
    yield Whole.of("· f2 changes how the session starts", Tone.MUTED)
    if case is not None and case.conversation:
        turns = plural(len(case.conversation), "turn")
        yield Whole.of(f"· ctrl+l says the {turns} of {safe_line(case.eval_id)} first", Tone.MUTED)


def _fact(name: str, value: str) -> Whole:
    return Whole((Piece(f"{name:<7}", Tone.KEY), Piece(safe(value))), hang=7)
