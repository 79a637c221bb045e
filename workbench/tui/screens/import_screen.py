"""Sessions of production on the screen: read a file, choose sessions, and keep them as cases."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from rich.cells import cell_len
from textual import work
from textual.widget import Widget

from workbench.engine.session_import import (
    ImportedSession,
    Redactor,
    SessionFilter,
    compile_pattern,
    describe_redactions,
    get_first_message,
    keep_sessions,
    list_tools,
    open_source,
    preview_lines,
)
from workbench.report.run_report import time_text
from workbench.store.datasets.adk_sessions import SourceSession
from workbench.store.files import EVAL_SET_SUFFIXES
from workbench.tui.dialogs.dialogs import AskScreen, MarkingScreen, add_to_set, ask_new_set
from workbench.tui.screen_context import ScreenContext
from workbench.tui.state.browser_list import BrowserRow
from workbench.tui.state.text_layout import (
    Block,
    Line,
    MarkedRows,
    Paragraph,
    Style,
    StyledText,
    cut_line,
    plural,
    safe,
    safe_line,
)
from workbench.tui.widgets.key_line import report_errors, say

if TYPE_CHECKING:
    from workbench.engine.workspace import Workspace

_USER, _TIME, _TURNS, _TOOLS = 12, 16, 5, 24
"""The widths of columns, in cells."""

_WIDTH_FOR_USER, _WIDTH_FOR_TIME, _WIDTH_FOR_TOOLS = 50, 72, 110
"""The widths of lists with these columns, in cells: below them, messages need the room."""

_HEADING = 9  # the width of the headings in a preview
_STYLES = {"turn": Style.HEADING, "note": Style.WARNING, "problem": Style.ERROR, "response": Style.STRONG}


class SessionRows(MarkedRows[SourceSession]):
    """Rows of sessions, none marked at first. They are shown redacted; the sessions themselves stay as they are."""

    def __init__(self, sessions: Sequence[SourceSession], *, source: str) -> None:
        super().__init__()
        self.rows = sessions
        self._source = source
        self._patterns: list[re.Pattern[str]] = []
        self.redactor = Redactor()

    def can_mark(self, index: int) -> bool:
        """False for a session that cannot be a case."""
        return self.rows[index].problem is None

    def add_pattern(self, pattern: re.Pattern[str]) -> None:
        """Redact the matches of another pattern."""
        self._patterns.append(pattern)
        self.redactor = Redactor(self._patterns)

    def line(self, index: int, width: int) -> Line:
        """Format one session: mark, user, time, turns and tools as far as there is room, first message."""
        session = self.rows[index]
        clean = self.redactor.redact_text
        mark = StyledText(" ✓ ", Style.PASSED) if index in self.marked else StyledText("   ")
        facts = f"{_pad(clean(session.user), _USER)} " if width >= _WIDTH_FOR_USER else ""
        if width >= _WIDTH_FOR_TIME:
            facts += f"{_format_time(session):<{_TIME}} {len(session.turns):>{_TURNS}}  "
        if width >= _WIDTH_FOR_TOOLS:
            facts += f"{_pad(', '.join(list_tools(session)), _TOOLS)} "
        if session.problem is not None:
            said = StyledText(f"({safe_line(clean(session.problem), width=width)})", Style.MUTED)
        else:
            said = StyledText(safe_line(clean(get_first_message(session)), width=width))
        return cut_line((mark, StyledText(facts, Style.MUTED), said), width)

    def header_line(self) -> Line:
        """Format the source and the number of marked sessions."""
        found = f"{len(self.marked)} of {plural(len(self), 'session')} marked"
        patterns = f" · redacted too: {', '.join(each.pattern for each in self._patterns)}" if self._patterns else ""
        return (
            StyledText(f" {found}", Style.HEADING),
            StyledText(f" · {safe_line(self._source + patterns)} · nothing is saved yet", Style.MUTED),
        )

    def blocks(self) -> Sequence[Block]:
        """Show the session under the cursor as the case that it would become."""
        if not self.rows:
            return ()
        session, redactions = self.redactor.redact_session(self.rows[self.cursor])
        facts = "".join(f" · {safe_line(fact)}" for fact in (session.user, _format_time(session)) if fact)
        title = (StyledText(safe_line(session.id), Style.KEY), StyledText(facts, Style.MUTED))
        blocks: list[Block] = [Paragraph(title)]
        for heading, text in preview_lines(session):
            blocks.append(_make_paragraph(heading, text))
        if redactions:
            blocks.append(_make_paragraph("redacted", describe_redactions(redactions)))
        return blocks


def _format_time(session: SourceSession) -> str:
    return "" if session.began is None else time_text(session.began)[:_TIME]


def _pad(text: str, width: int) -> str:
    shown = safe_line(text, width=width)
    while cell_len(shown) > width:
        shown = f"{shown[:-2]}…"
    return shown + " " * (width - cell_len(shown))


def _make_paragraph(heading: str, text: str) -> Paragraph:
    style = _STYLES.get(heading.split(" ", maxsplit=1)[0], Style.TEXT)
    name = StyledText(f"{heading:<{_HEADING}} ", Style.HEADING if style is Style.HEADING else Style.MUTED)
    return Paragraph((name, StyledText(safe(text), style)), hang=_HEADING + 1)


class ImportScreen(MarkingScreen[SessionRows]):
    """Sessions to keep as cases."""

    HELP: ClassVar[str] = (
        "Sessions that users had with an agent. Mark those that should become cases: they expect what happened. Keys "
        "and passwords are replaced by [redacted]; add patterns for names and numbers. The file is never changed."
    )
    LETTERS = "letters of a user, a tool or a message"
    REFUSED = "this session cannot be a case; the reason is below the list"
    NONE_MARKED = "no session is marked: enter marks the one under the cursor"
    PLACES = ("import",)

    @work(exclusive=True)
    async def action_redact(self) -> None:
        asked = AskScreen("Regular expression whose matches become [redacted]", check=_explain_invalid_pattern)
        pattern = await self.app.push_screen_wait(asked)
        if pattern is not None:
            self._rows.add_pattern(compile_pattern(pattern))
            self.show_rows()


def _explain_invalid_pattern(text: str) -> str | None:
    try:
        compile_pattern(text)
    except ValueError as error:
        return str(error)
    return None


# The steps: ask for the file, read it, choose, save.


async def import_sessions(widget: Widget, context: ScreenContext) -> None:
    """Run all steps; the cases go into the selected set, or into a new one. `widget` shows dialogs and messages."""
    project = context.state.project
    row = context.state.browser.selected_row
    if project is None:
        say(widget, "the project is still being opened", severity="warning")
        return
    root, selected = Path(project.root), _find_set(context, row)

    def find(text: str) -> Path:
        return root / Path(text.strip()).expanduser()

    name = await widget.app.push_screen_wait(
        AskScreen(
            "File with sessions of ADK, Langfuse, LangSmith or OTLP, or with lists of messages",
            check=lambda text: None if text.strip() and find(text).is_file() else "expected the path of a file",
        )
    )
    if name is None:
        return
    with report_errors(widget):
        kind, sessions = await asyncio.to_thread(_read_sessions, find(name))
        if not sessions:
            say(widget, f"{safe_line(name)}: there are no sessions", severity="warning")
            return
        rows = SessionRows(sessions, source=f"{kind} {name}")
        while await widget.app.push_screen_wait(ImportScreen(rows)) is not None:
            eval_set = selected or await ask_new_set(widget.app, context, "" if row is None else row.target)
            if eval_set is not None:
                await _save(widget, context, rows, eval_set, is_new=selected is None)
                return


def _find_set(context: ScreenContext, row: BrowserRow | None) -> str | None:
    """Return the selected eval set; None for an agent, a dataset, or a set that only the history has."""
    if row is None or not row.eval_set.endswith(EVAL_SET_SUFFIXES):
        return None
    return None if context.state.browser.is_from_history(row.target, row.eval_set) else row.eval_set


def _read_sessions(path: Path) -> tuple[str, list[SourceSession]]:
    source = open_source(path)
    return source.kind, [*source.find_sessions(SessionFilter())]


async def _save(widget: Widget, context: ScreenContext, rows: SessionRows, eval_set: str, *, is_new: bool) -> None:
    """Add the marked sessions to the set, and create it if it is new. Raises StoreError."""
    marked = rows.marked_rows

    def add(workspace: Workspace) -> Sequence[ImportedSession]:
        label = f"import {plural(len(marked), 'session')}"
        return workspace.documents.edit_and_save(
            eval_set, lambda document: keep_sessions(document, marked, rows.redactor), label=label
        )

    kept = await add_to_set(widget, context, eval_set, add, is_new=is_new)
    if kept is None:
        return
    added = sum(each.is_added for each in kept)
    existing = f", {len(kept) - added} already there" if added < len(kept) else ""
    say(widget, f"added {plural(added, 'case')} to {eval_set}{existing}; u undoes it")
