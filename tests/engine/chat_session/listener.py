"""A reader of the events of a chat."""

from __future__ import annotations

from typing import Any

from workbench.engine.chat_session import Chat
from workbench.model.run_events import ChatEvent, StateSeen, TurnFailed


class Listener:
    """Reads the events of a chat."""

    def __init__(self, chat: Chat) -> None:
        self.chat = chat
        self.events: list[ChatEvent] = []
        self._events = chat.iter_events()

    def wait_for(self, *kinds: type[Any]) -> Any:
        """Read events until one of these kinds comes, and return it."""
        for event in self._events:
            self.events.append(event)
            if isinstance(event, kinds):
                return event
        raise AssertionError("the chat is over")

    def say(self, text: str) -> Any:
        self.chat.say(text)
        return self.wait_for(StateSeen, TurnFailed)

    def read_rest(self) -> list[ChatEvent]:
        return list(self._events)
