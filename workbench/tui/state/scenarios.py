"""The scenarios that a model has written, each to be kept or left out."""

from __future__ import annotations

from collections.abc import Sequence

from workbench.model.evalset import ConversationScenario
from workbench.tui.state.blocks import BLANK, Block, Whole
from workbench.tui.state.cursor import CursorRows
from workbench.tui.state.pieces import Line, Piece, Tone, plural, safe, safe_line


class WrittenScenarios(CursorRows):
    """Rows with a cursor. All are kept until the user leaves one out. `notes` says what did not become a scenario."""

    def __init__(
        self, scenarios: Sequence[ConversationScenario], notes: Sequence[str] = (), *, spent: str = ""
    ) -> None:
        """`spent` says what asking for them took."""
        self._spent = f" · {safe_line(spent)}" if spent else ""
        self._scenarios = list(scenarios)
        self._is_kept = [True] * len(scenarios)
        self._notes = notes

    def __len__(self) -> int:
        return len(self._scenarios)

    @property
    def selected(self) -> ConversationScenario:
        """The scenario under the cursor."""
        return self._scenarios[self.cursor]

    @property
    def kept(self) -> Sequence[ConversationScenario]:
        """Those that are kept."""
        return [each for each, is_kept in zip(self._scenarios, self._is_kept, strict=True) if is_kept]

    def toggle(self) -> None:
        """Keep the scenario under the cursor, or leave it out, and go to the next."""
        self._is_kept[self.cursor] = not self._is_kept[self.cursor]
        self.move(1)

    def toggle_all(self) -> None:
        """Keep all; where all are kept, none."""
        self._is_kept = [not all(self._is_kept)] * len(self)

    def replace(self, scenario: ConversationScenario) -> None:
        """Put an edited scenario in the place of the one under the cursor. It is kept."""
        self._scenarios[self.cursor] = scenario
        self._is_kept[self.cursor] = True

    def line(self, index: int, width: int) -> Line:
        """One scenario: whether it is kept, who the user is, what they say first."""
        scenario, is_kept = self._scenarios[index], self._is_kept[index]
        mark = Piece(" ✓ keep      ", Tone.PASSED) if is_kept else Piece(" - leave out ", Tone.MUTED)
        persona = f"{safe_line(_persona(scenario), width=16):<10}"
        start = safe_line(scenario.starting_prompt, width=max(width - 25, 1))
        return (mark, Piece(f"{persona} ", Tone.KEY), Piece(start, Tone.TEXT if is_kept else Tone.MUTED))

    def head(self, eval_set: str) -> Line:
        """What is looked at, and how many are kept."""
        found = f"{len(self.kept)} of {plural(len(self), 'scenario')} kept"
        where = safe_line(eval_set) if eval_set else "a new eval set"
        return (
            Piece(f" {found}", Tone.HEADING),
            Piece(f" · for {where} · nothing is saved yet{self._spent}", Tone.MUTED),
        )

    def blocks(self) -> Sequence[Block]:
        """All of the scenario under the cursor, and then what did not become one."""
        scenario = self.selected
        blocks: list[Block] = [
            Whole.of("starting prompt", Tone.HEADING),
            Whole.of(safe(scenario.starting_prompt), indent=2),
            BLANK,
            Whole.of("conversation plan", Tone.HEADING),
            Whole.of(safe(scenario.conversation_plan), indent=2),
            BLANK,
            Whole.of("persona", Tone.HEADING),
            Whole.of(safe(_persona(scenario)) or "none", indent=2),
        ]
        if self._notes:
            blocks += [BLANK, Whole.of("also to be known", Tone.HEADING)]
            blocks += [Whole.of(safe(note), Tone.WARNING, indent=2) for note in self._notes]
        return blocks


def _persona(scenario: ConversationScenario) -> str:
    persona = scenario.user_persona
    return persona if isinstance(persona, str) else "" if persona is None else persona.id


def count_problem(text: str, *, most: int) -> str | None:
    """What is wrong with a number of scenarios; None where nothing is."""
    if text.strip().isdecimal() and text.strip().isascii() and 1 <= int(text) <= most:
        return None
    return f"a number from 1 to {most} is expected"
