"""Saves eval sets, writes recovery files, detects changes on disk, and lets the user resolve conflicts.

The controller has no widgets; the main screen calls it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING

from textual.message import Message
from textual.widget import Widget
from textual.worker import Worker

from workbench.model.identity import CaseKey
from workbench.store.errors import FileChanged, StoreError
from workbench.tui.backend.document_calls import add_conversation
from workbench.tui.dialogs.dialogs import ChooseScreen, ConfirmScreen
from workbench.tui.external_editor import edit_text, keep_text
from workbench.tui.screen_context import (
    Controller,
    DocumentsChanged,
    ProjectChanged,
    RestingTimer,
    ScreenContext,
    background,
)
from workbench.tui.state.browser_state import Subject
from workbench.tui.state.text_layout import safe_line
from workbench.tui.widgets.key_line import report_errors, say

if TYPE_CHECKING:
    from workbench.engine.open_documents import FoundEdits, OpenDocuments
    from workbench.engine.set_files import Done
    from workbench.engine.workspace import Workspace
    from workbench.store.evalsets.evalset_document import EvalSetDocument
    from workbench.tui.dialogs.conflict_screen import Decision


Step = Callable[["OpenDocuments"], "Done | None"]
"""Undoes or redoes a change and returns it."""

_KEEP = 0.25  # seconds between two checks for edits that recovery files lack
_LONGEST = 4  # checks after which recovery files are written even while the user types
_CHECK = 5.0  # seconds between two checks of the files, besides those after observed saves


class SaveController(Controller):
    """Saves and checks the documents of the project."""

    class TextsLeft(Message):
        """An earlier session left text that was not applied."""

    def __init__(self, widget: Widget, context: ScreenContext) -> None:
        super().__init__(widget, context)
        self._seen = self._kept = self.backend.edits
        self._waited = 0
        self._is_keeping_refused = False
        self._in_conflict: set[str] = set()  # as last reported
        self._file_check: Worker[None] | None = None
        self._is_check_due = False

    def start(self) -> None:
        self.backend.on_edit = RestingTimer(self.widget, _KEEP, self._keep_if_quiet).wake
        self.widget.set_interval(_CHECK, self.check_files)

    @background(group="documents")
    async def save(self, eval_set: str) -> None:
        """Save a set at the request of the user."""
        if eval_set not in await self.backend.call(list_unsaved):
            say(self.widget, f"{eval_set} has no unsaved edits")
            return
        match await self._save(eval_set):
            case "written":
                say(self.widget, f"saved {eval_set}")
            case "taken":
                undo = self.state.find_key("undo")
                say(self.widget, f"{eval_set} has the version on disk; {undo} restores your edits")

    @background(group="documents")
    async def undo(self, eval_set: str | None) -> None:
        """Undo the last edit of this set, or the last change of the files of sets."""
        await self._step(eval_set, lambda documents: documents.undo_newest(eval_set), done="undone", verb="undo")

    @background(group="documents")
    async def redo(self, eval_set: str | None) -> None:
        """Redo the last undone edit."""
        await self._step(eval_set, lambda documents: documents.redo_newest(eval_set), done="redone", verb="redo")

    @background(group="documents")
    async def keep_conversation(self, subject: Subject) -> None:
        """Add the conversation of a simulated user to its set as a fixed case."""
        from workbench.engine.chat_session import can_save  # imports the engine, so only when needed

        result, case = subject.result, subject.case
        if result is None or case is None or not can_save(result):
            say(self.widget, "there is no finished conversation of a simulated user here", severity="warning")
            return
        with report_errors(self.widget):
            eval_id = await self.backend.edit(
                lambda workspace: workspace.documents.edit_and_save(
                    result.case.eval_set,
                    lambda document: add_conversation(document, result, case),
                    label=f"save the conversation of {case.eval_id}",
                )
            )
            self.post_message(DocumentsChanged(frozenset({result.case.eval_set})))
            say(self.widget, f"saved as {eval_id}; {self.state.find_key('undo')} undoes it")

    async def save_sets(self, eval_sets: Collection[str]) -> bool:
        """Save those of these sets that have unsaved edits. Return False if one could not be saved."""
        for eval_set in await self.backend.call(list_unsaved):
            if eval_set in eval_sets and await self._save(eval_set) is None:
                return False
        return True

    async def may_leave(self) -> bool:
        """Ask what to do with unsaved edits, if there are any. Return False if the user stays."""
        try:
            dirty = await self.backend.call(list_unsaved)
        except StoreError:  # the project was never opened
            return True
        if not dirty:
            return True
        question = f"Unsaved edits in {', '.join(dirty[:5])}{' …' if len(dirty) > 5 else ''}"
        choices = ["save all and quit", "quit, and offer the edits again at the next start"]
        answer = await self.app.push_screen_wait(ChooseScreen(question, choices))
        if answer is None:
            return False
        return await (self.save_sets(dirty) if answer == 0 else self._leave_for_later())

    @background(group="decide")
    async def decide(self, eval_set: str) -> None:
        """Show both versions of a set, and let the user choose."""
        await self._decide(eval_set)

    @background(group="recover")
    async def offer_recoveries(self) -> None:
        """Show the unsaved edits of earlier sessions, then their unapplied texts."""
        found = await self.backend.call(lambda workspace: workspace.documents.find_recoveries())
        if found:
            await self._offer(found)
        if await self.backend.call(lambda workspace: workspace.typed_texts.has_abandoned()):
            self.post_message(self.TextsLeft())

    async def _offer(self, found: Sequence[FoundEdits]) -> None:
        # Imported when needed, like the screen in `_decide`: both import the engine, and most sessions need neither.
        from workbench.tui.dialogs.conflict_screen import RecoveryScreen

        restored = await self.app.push_screen_wait(RecoveryScreen(self.backend, found))
        left = await self.backend.call(lambda workspace: workspace.documents.find_recoveries())
        self.state.problems.set_recoveries([item.eval_set for item in left])
        self.post_message(DocumentsChanged(frozenset(restored)))

    @background(group="edit_text")
    async def edit_case_text(self, key: CaseKey) -> None:
        """Edit the text of a case in the user's editor; it is a step of undo, unsaved."""
        with report_errors(self.widget, OSError):
            text, fault_of = await self.backend.call(lambda workspace: _read_case_text(workspace, key))
            edited = await edit_text(self.app, text, suffix=".json", check=fault_of)
            if edited is None:
                return
            if reason := await self._explain_changed_case(key, text):
                say(self.widget, f"{reason}; your text is in {keep_text(edited, suffix='.json')}", severity="warning")
                return
            await self.backend.edit(lambda workspace: _write_case_text(workspace, key, edited))
            self._post_changed([key.eval_set])

    async def _explain_changed_case(self, key: CaseKey, text: str) -> str:
        """Return why an edited text may not replace a case whose text was `text`; empty if it may."""
        name = safe_line(key.name)
        try:
            present, _ = await self.backend.call(lambda workspace: _read_case_text(workspace, key))
        except StoreError:
            return f"{name} is no longer in {safe_line(key.eval_set)}"
        undo = self.state.find_key("undo")
        question = f"{name} changed while you edited it.\nReplace its present text by yours? {undo} undoes it."
        if present == text or await self.app.push_screen_wait(ConfirmScreen(question)):
            return ""
        return f"{name} stays as it is now"

    async def _step(self, eval_set: str | None, step: Step, *, done: str, verb: str) -> None:
        try:
            change = await self.backend.edit(lambda workspace: step(workspace.documents))
        except FileChanged as error:  # the file to save changed on disk
            say(self.widget, str(error), severity="warning")
            if eval_set is not None:
                await self._decide(eval_set)
            return
        except StoreError as error:
            say(self.widget, str(error), severity="error")
            return
        say(self.widget, f"{done}: {change.label}" if change is not None else f"there is nothing to {verb}")
        if change is None:
            return
        if change.before is None and change.after is None:
            self._post_changed(change.eval_sets)
        else:
            self.post_message(ProjectChanged(select=change.after))

    async def _leave_for_later(self) -> bool:
        """Write recovery files. If that fails, ask whether to lose the edits. Return False if the user stays."""
        try:
            await self.backend.call(lambda workspace: workspace.documents.write_recovery_files())
        except StoreError as error:
            question = f"The unsaved edits cannot be stored: {error}"
            return await self.app.push_screen_wait(ChooseScreen(question, ["stay", "quit and lose them"])) == 1
        return True

    async def _save(self, eval_set: str) -> Decision | None:
        """Save a set; if it changed on disk, let the user decide. Return None if nothing was done."""
        try:
            await self.backend.edit(lambda workspace: workspace.documents.save(eval_set))
        except FileChanged:
            return await self._decide(eval_set)
        except StoreError as error:
            say(self.widget, str(error), severity="error")
            return None
        self._post_changed([eval_set])
        return "written"

    async def _decide(self, eval_set: str) -> Decision | None:
        from workbench.tui.dialogs.conflict_screen import ConflictScreen

        decided = await self.app.push_screen_wait(ConflictScreen(self.backend, eval_set))
        self._post_changed([eval_set])
        return decided

    def _keep_if_quiet(self) -> bool:
        """Write recovery files if the user pauses, or has typed for some time. Return False if they are up to date."""
        changes = self.backend.edits
        is_quiet, self._seen = changes == self._seen, changes
        self._waited += 1
        if is_quiet or self._waited >= _LONGEST:
            self._waited, self._kept = 0, changes
            self._keep()
        return changes != self._kept

    @background(group="keep")
    async def _keep(self) -> None:
        try:
            await self.backend.call(lambda workspace: workspace.documents.write_recovery_files())
        except StoreError as error:
            if not self._is_keeping_refused:  # once, not at every key press
                say(self.widget, f"unsaved edits cannot be stored, a crash would lose them: {error}", severity="error")
            self._is_keeping_refused = True
        else:
            self._is_keeping_refused = False

    def check_files(self) -> None:
        """Check the files. A running check is not cancelled, because it reports a change only once."""
        self._is_check_due = True
        if self._file_check is None or self._file_check.is_finished:
            self._file_check = self._check_files()

    @background(group="look")
    async def _check_files(self) -> None:
        """Find and report changes by other programs."""
        while self._is_check_due:
            self._is_check_due = False
            changed = await self.backend.call(lambda workspace: workspace.documents.find_changed_sets())
            for eval_set in sorted(changed):
                await self._notify_file_state(eval_set)
            self._post_changed(sorted(changed))

    async def _notify_file_state(self, eval_set: str) -> None:
        try:
            status = await self.backend.call(lambda workspace: workspace.documents.get_status(eval_set))
        except StoreError:
            return  # its problem is listed
        if status.changed_on_disk:
            change = "was deleted" if status.deleted_on_disk else "changed on disk"
            choice = "whether to write it again" if status.deleted_on_disk else "which to keep"
            key = self.state.find_key("problems_pane")
            message = f"{eval_set} {change} while it has unsaved edits; {key} and enter: choose {choice}"
            say(self.widget, message, severity="warning", needs_decision=True)
            self._in_conflict.add(eval_set)
            return
        was_in_conflict = eval_set in self._in_conflict
        self._in_conflict.discard(eval_set)
        if was_in_conflict and status.dirty:
            say(self.widget, f"{eval_set} is on disk again as before; your edits are unsaved")
        elif status.problem is not None:
            say(self.widget, f"{status.problem}; the last valid version is shown", severity="error")

    def _post_changed(self, eval_sets: Sequence[str]) -> None:
        if eval_sets:
            self.post_message(DocumentsChanged(frozenset(eval_sets)))


def list_unsaved(workspace: Workspace) -> Sequence[str]:
    """List the eval sets with unsaved edits."""
    return workspace.documents.dirty()


def _read_case_text(workspace: Workspace, key: CaseKey) -> tuple[str, Callable[[str], str | None]]:
    """Read the text of a case, and get the check for an edited text of it."""
    document = workspace.documents.document(key.eval_set)
    return document.case_text(document.find_index(key.eval_id, occurrence=key.occurrence)), document.find_fault_in_text


def _write_case_text(workspace: Workspace, key: CaseKey, text: str) -> None:
    def write(document: EvalSetDocument) -> None:
        document.set_case_text(document.find_index(key.eval_id, occurrence=key.occurrence), text)

    workspace.documents.edit(key.eval_set, write, label=f"edit {key.eval_id}")
