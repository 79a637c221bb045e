"""What the chat pane keeps for each agent: the session, what is typed, what was typed before."""

from __future__ import annotations

from dataclasses import dataclass, field

from workbench.model.evalset import Content, SessionInput
from workbench.tui.state.chat.conversation import ChatTurn, Conversation, Phase


@dataclass
class PromptHistory:
    """What was said before, to be said again. What was typed and not sent waits behind the newest."""

    _prompts: list[str] = field(default_factory=list)
    _place: int = 0  # of the one that is shown; behind the last: what is typed
    _typed: str = ""

    def add(self, prompt: str) -> None:
        """Something was said; saying the same again makes no second entry."""
        if prompt in self._prompts:
            self._prompts.remove(prompt)
        self._prompts.append(prompt)
        self._place, self._typed = len(self._prompts), ""

    def earlier(self, shown: str) -> str | None:
        """The prompt before the one that is shown; None where there is none."""
        if self._place == 0:
            return None
        self._keep(shown)
        self._place -= 1
        return self._prompts[self._place]

    def later(self, shown: str) -> str | None:
        """The prompt after the one that is shown, at last what was typed; None where that is shown."""
        if self._place >= len(self._prompts):
            return None
        self._keep(shown)
        self._place += 1
        return self._prompts[self._place] if self._place < len(self._prompts) else self._typed

    def _keep(self, shown: str) -> None:
        if self._place >= len(self._prompts):
            self._typed = shown


@dataclass
class TargetChat:
    """The chat with one agent. `session_input` is for the next session; `chosen` is the turn under the cursor."""

    target: str
    conversation: Conversation | None = None
    session_input: SessionInput = field(default_factory=SessionInput)
    draft: str = ""
    prompts: PromptHistory = field(default_factory=PromptHistory)
    chosen: int | None = None
    is_opening: bool = False  # a session is being opened
    problem: str = ""  # why none could be
    kept_turns: int = 0  # of this session, as an eval case

    def begin(self, conversation: Conversation) -> None:
        """Another session takes the place of the one there was."""
        self.give_up()
        self.conversation = conversation

    def give_up(self) -> None:
        """There is no session any more."""
        self.conversation, self.chosen, self.problem, self.kept_turns = None, None, "", 0

    @property
    def not_kept(self) -> int:
        """How many answered turns would be gone with the session."""
        answered = len(self.conversation.answered) if self.conversation is not None else 0
        return answered if answered > self.kept_turns else 0

    @property
    def is_busy(self) -> bool:
        """Whether an answer is awaited."""
        return self.is_opening or (self.conversation is not None and self.conversation.is_busy)

    @property
    def has_begun(self) -> bool:
        """Whether something was said in this session, so that how it starts is settled."""
        return self.conversation is not None and bool(self.conversation.said)

    def again(self) -> list[Content]:
        """What is said where the session starts again with its last turn tried once more."""
        return list(self.conversation.said) if self.conversation is not None else []

    def before_lost(self) -> list[Content]:
        """What is said where a session starts again for something new to be said after its answered turns."""
        return [turn.content for turn in self.conversation.answered] if self.conversation is not None else []

    def answer(self) -> str | None:
        """What the agent said in the chosen turn, else last; None where it said nothing."""
        if self.conversation is None or not self.conversation.answered:
            return None
        turn = self.conversation.answered[-1] if self.chosen is None else self.conversation.turns[self.chosen]
        response = turn.result.invocation.final_response if turn.result is not None else None
        return response.text(thoughts=False) if response is not None else None

    def take_back(self, turn: ChatTurn) -> bool:
        """What was said in a turn that failed is in the input again, unless something else is; whether that is so."""
        text = turn.content.text()
        if turn.phase not in (Phase.FAILED, Phase.CANCELLED) or self.draft.strip():
            return False
        self.draft = text
        return True

    def choose(self, by: int) -> None:
        """Move the cursor by turns; behind the last turn there is none chosen."""
        count = len(self.conversation.turns) if self.conversation is not None else 0
        place = (count if self.chosen is None else self.chosen) + by
        self.chosen = None if place >= count or count == 0 else max(place, 0)
