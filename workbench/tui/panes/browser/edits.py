"""What the browser does with eval sets and cases: asked for, checked, saved at once, and said.

Everything can be undone: edits of cases in the set that they were made to, what was done with files anywhere.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from textual.widget import Widget

from workbench.model.keys import CaseKey
from workbench.store.errors import FileChanged, StoreError
from workbench.store.names import EVAL_SET_SUFFIX
from workbench.tui.gateway import cases
from workbench.tui.hub import Hub
from workbench.tui.messages import DocumentsChanged, ProjectChanged, SaveWanted, TabWanted
from workbench.tui.screens.ask import AskScreen, Check
from workbench.tui.screens.choose import ChooseScreen
from workbench.tui.screens.confirm import ConfirmScreen
from workbench.tui.state.browser import Order
from workbench.tui.state.browser.names import (
    case_id_problem,
    copied_set_path,
    free_name,
    set_id_of,
    set_path,
    set_path_problem,
)
from workbench.tui.state.pieces import plural, safe_line
from workbench.tui.state.possible import why_not_edited, why_not_removed
from workbench.tui.widgets.saying import say

if TYPE_CHECKING:
    from workbench.store.documents import EvalSetDocument


_OF_MARKED = frozenset({"move", "delete"})
_OF_CASES = frozenset({"new_case", "rename", "duplicate", "move_case", *_OF_MARKED})


class Edits:
    """The operations, on what is selected or marked. `widget` is what asks and says."""

    def __init__(self, widget: Widget, hub: Hub) -> None:
        self._widget = widget
        self._state = hub.state
        self._browser = hub.state.browser
        self._documents = hub.gateway.documents

    def why_not(self, action: str) -> str:
        """Why one of these operations has no use for what is selected or marked, in one sentence; else empty."""
        row = self._browser.selected
        if row is not None and row.case is None and action == "delete":
            return why_not_removed(self._browser, row.target, row.eval_set)
        keys = self._meant() if action in _OF_MARKED else ()
        selected = [] if row is None or action not in _OF_CASES else [(row.target, row.eval_set)]
        return why_not_edited(self._browser, {(key.target, key.eval_set) for key in keys} or selected)

    async def new_case(self) -> None:
        """Add a case to the selected set, behind the selected case."""
        row = self._browser.selected
        if row is None or not row.eval_set:
            self._warn("select the eval set that is to have the new case (ctrl+n makes a set)")
            return
        if self._refuses("new_case"):
            return
        taken = self._ids(row.eval_set)
        question = f"Id of the new case in {row.eval_set}"
        eval_id = await self._ask(question, free_name("new_case", taken), lambda text: case_id_problem(text, taken))
        if eval_id is None:
            return
        key = CaseKey(target=row.target, eval_set=row.eval_set, eval_id=eval_id)
        self._browser.expect(key)
        add = partial(cases.add_case, eval_id=eval_id, after=row.case)
        if await self._edit(row.eval_set, add, label=f"add {eval_id}"):
            self._widget.post_message(TabWanted("case"))

    async def new_set(self) -> None:
        """Add an eval set without cases."""
        row = self._browser.selected
        is_in_file = row is not None and row.eval_set and not why_not_removed(self._browser, row.target, row.eval_set)
        folder = PurePosixPath(row.eval_set).parent if row is not None and is_in_file else PurePosixPath()
        taken = self._paths()
        proposed = str(folder / free_name("new", {path.removesuffix(EVAL_SET_SUFFIX) for path in taken}))
        written = await self._ask(
            "File of the new eval set, relative to the project", proposed, lambda text: set_path_problem(text, taken)
        )
        if written is None:
            return
        path = set_path(written)
        await self._with_files(
            lambda: self._documents.create_set(path, eval_set_id=set_id_of(path)), select=path, done=f"created {path}"
        )

    async def rename(self) -> None:
        """Give the selected case another id, or the selected set another file."""
        row = self._browser.selected
        if row is None or not row.eval_set:
            self._warn("select a case or an eval set to rename")
        elif self._refuses("rename"):
            return
        elif row.case is None:
            await self._rename_set(row.eval_set)
        else:
            await self._rename_case(row.case)

    async def duplicate(self) -> None:
        """Copy the selected case under another id, or the selected set to another file."""
        row = self._browser.selected
        if row is None or not row.eval_set:
            self._warn("select a case or an eval set to duplicate")
        elif self._refuses("duplicate"):
            return
        elif row.case is None:
            await self._duplicate_set(row.eval_set)
        else:
            await self._duplicate_case(row.case)

    async def move_within(self, by: int) -> None:
        """Move the selected case in its file."""
        row = self._browser.selected
        if row is None or row.case is None:
            self._warn("select the case that is to be moved")
        elif self._refuses("move_case"):
            return
        elif self._browser.is_filtered or self._browser.order is not Order.FILE:
            self._warn("cases are moved where all are listed in file order (S sorts, / and escape end a filter)")
        else:
            move = partial(cases.move_case, key=row.case, by=by)
            await self._edit(row.eval_set, move, label=f"move {row.case.eval_id}")

    async def move_to_set(self) -> None:
        """Move the marked cases, else the selected one, to the end of another set."""
        keys = self._meant()
        if self._refuses("move"):
            return
        others = sorted(name for name in self._paths() - {key.eval_set for key in keys} if name.endswith(".json"))
        if not keys or not others:
            self._warn("select or mark the cases to move" if others else "there is no other eval set to move to")
            return
        what = _named(keys)
        chosen = await self._widget.app.push_screen_wait(ChooseScreen(f"Move {what} to", others))
        if chosen is None:
            return
        if not await self._move(keys, others[chosen]):
            return
        self._browser.marks.clear()
        say(self._widget, f"moved {what} to {others[chosen]}; u takes it back")

    async def delete(self) -> None:
        """Delete the selected set, or the marked cases, else the selected one."""
        if self._refuses("delete"):
            return
        row = self._browser.selected
        if row is not None and row.case is None and row.eval_set:
            await self._delete_set(row.eval_set)
            return
        keys = self._meant()
        if not keys:
            self._warn("select a case or an eval set to delete, or mark cases")
            return
        if len(keys) > 1 and not await self._confirm(f"Delete {_named(keys)}? u brings them back."):
            return
        changes = [(name, partial(cases.delete_cases, keys=deleted)) for name, deleted in _by_set(keys).items()]
        if not await self._edit_together(changes, label=f"delete {_named(keys)}"):
            return
        say(self._widget, f"deleted {_named(keys)}; u brings it back")

    async def _rename_case(self, key: CaseKey) -> None:
        taken = self._ids(key.eval_set) - {key.eval_id}
        eval_id = await self._ask(f"New id of {key.eval_id}", key.eval_id, lambda text: case_id_problem(text, taken))
        if eval_id is None or eval_id == key.eval_id:
            return
        self._browser.expect(CaseKey(target=key.target, eval_set=key.eval_set, eval_id=eval_id))
        rename = partial(cases.rename_case, key=key, eval_id=eval_id)
        await self._edit(key.eval_set, rename, label=f"rename {key.eval_id}")

    async def _rename_set(self, path: str) -> None:
        taken = self._paths() - {path}
        written = await self._ask(f"New file of {path}", path, lambda text: set_path_problem(text, taken))
        if written is None or set_path(written) == path:
            return
        new = set_path(written)
        await self._with_files(
            lambda: self._documents.rename_set(path, new), select=new, done=f"renamed {path} to {new}"
        )

    async def _duplicate_case(self, key: CaseKey) -> None:
        taken = self._ids(key.eval_set)
        proposed = free_name(f"{key.eval_id}_copy", taken)
        eval_id = await self._ask(
            f"Id of the copy of {key.eval_id}", proposed, lambda text: case_id_problem(text, taken)
        )
        if eval_id is None:
            return
        self._browser.expect(CaseKey(target=key.target, eval_set=key.eval_set, eval_id=eval_id))
        duplicate = partial(cases.duplicate_case, key=key, eval_id=eval_id)
        await self._edit(key.eval_set, duplicate, label=f"duplicate {key.eval_id}")

    async def _duplicate_set(self, path: str) -> None:
        taken = self._paths()
        written = await self._ask(
            f"File of the copy of {path}", copied_set_path(path, taken), lambda text: set_path_problem(text, taken)
        )
        if written is None:
            return
        copy = set_path(written)
        await self._with_files(
            lambda: self._documents.duplicate_set(path, copy), select=copy, done=f"copied {path} to {copy}"
        )

    async def _delete_set(self, path: str) -> None:
        if await self._confirm(
            f"Delete the file {safe_line(path)} with {plural(len(self._ids(path)), 'case')}? u brings it back."
        ):
            await self._with_files(
                lambda: self._documents.delete_set(path), select=None, done=f"deleted {path}; u brings it back"
            )

    async def _move(self, keys: Sequence[CaseKey], target: str) -> bool:
        """Take cases out of their sets and add them to another, as one step of undo; False where that could not be."""
        changes: list[tuple[str, Callable[[EvalSetDocument], None]]] = []
        taken: list[cases.TakenCase] = []
        try:
            for source, moved in _by_set(keys).items():
                taken += await self._documents.look(source, partial(cases.take_cases, keys=moved))
                changes.append((source, partial(cases.delete_cases, keys=moved)))
        except StoreError as error:
            self._refuse(error)
            return False
        # The other set comes first: whatever happens in between, each case is in one file at least.
        changes.insert(0, (target, partial(cases.put_cases, cases=taken)))
        return await self._edit_together(changes, label=f"move {_named(keys)} to {target}")

    async def _edit_together(
        self, changes: Sequence[tuple[str, Callable[[EvalSetDocument], None]]], *, label: str
    ) -> bool:
        """Edit several sets as one step and save them; False where that could not be, and nothing of it is done."""
        try:
            await self._documents.edit_together(changes, label=label)
        except FileChanged:
            self._warn("a file was changed meanwhile: decide which version to keep, then do it again")
            for name, _ in changes:
                if (await self._documents.standing(name)).changed_on_disk:
                    self._widget.post_message(SaveWanted(name))
            return False
        except StoreError as error:
            self._refuse(error)
            return False
        self._widget.post_message(DocumentsChanged(frozenset(name for name, _ in changes)))
        return True

    async def _edit(self, eval_set: str, change: Callable[[EvalSetDocument], None], *, label: str) -> bool:
        """Make an edit and save it; False where that could not be."""
        try:
            await self._documents.edit_and_save(eval_set, change, label=label)
        except FileChanged:  # the edit is made; whose version of the file is to be saved the user decides
            self._widget.post_message(SaveWanted(eval_set))
            return False
        except StoreError as error:
            self._refuse(error)
            return False
        self._widget.post_message(DocumentsChanged(frozenset([eval_set])))
        return True

    async def _with_files(self, work: Callable[[], Awaitable[None]], *, select: str | None, done: str) -> None:
        try:
            await work()
        except StoreError as error:
            self._refuse(error)
            return
        if select is not None:
            self._browser.expect(select)
        say(self._widget, done)
        self._widget.post_message(ProjectChanged(select=select))

    async def _ask(self, question: str, value: str, check: Check) -> str | None:
        return await self._widget.app.push_screen_wait(AskScreen(question, value=value, check=check))

    async def _confirm(self, question: str) -> bool:
        return await self._widget.app.push_screen_wait(ConfirmScreen(question))

    def _meant(self) -> list[CaseKey]:
        """The marked cases, else the selected one."""
        row = self._browser.selected
        selected = [row.case] if row is not None and row.case is not None else []
        return list(self._browser.marks) or selected

    def _refuses(self, action: str) -> bool:
        """Whether an operation has no use for what is selected or marked; says why, before anything is asked."""
        reason = self.why_not(action)
        if reason:
            self._warn(reason)
        return bool(reason)

    def _ids(self, eval_set: str) -> set[str]:
        return {row.case.eval_id for row in self._browser.case_rows() if row.case and row.eval_set == eval_set}

    def _paths(self) -> set[str]:
        return {listed.relative for listed in self._browser.files}

    def _warn(self, message: str) -> None:
        say(self._widget, message, severity="warning")

    def _refuse(self, error: StoreError) -> None:
        say(self._widget, str(error), severity="error")


def _by_set(keys: Sequence[CaseKey]) -> dict[str, list[CaseKey]]:
    by_set: dict[str, list[CaseKey]] = {}
    for key in keys:
        by_set.setdefault(key.eval_set, []).append(key)
    return by_set


def _named(keys: Sequence[CaseKey]) -> str:
    return safe_line(keys[0].eval_id) if len(keys) == 1 else plural(len(keys), "case")
