"""The chat: what was said in it, how that is shown, and what can be done with it."""

from __future__ import annotations

from workbench.tui.state.chat.conversation import ChatTurn, Conversation, Phase
from workbench.tui.state.chat.lines import ChatLines
from workbench.tui.state.chat.target_chat import TargetChat

__all__ = ["ChatLines", "ChatTurn", "Conversation", "Phase", "TargetChat"]
