"""An eval-set file as a document: edited in its text, step by step undoable, saved without losing anybody's work."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from workbench.store.documents import editing
from workbench.store.documents.document_view import DocumentView
from workbench.store.documents.frame import DocumentFormat
from workbench.store.documents.jsontext import BrokenJson, decode_tolerantly
from workbench.store.documents.pieces import CasePiece, Pieces
from workbench.store.documents.places import Place, format_place, position_of
from workbench.store.documents.splice import Fragment, UnsafeEdit, WrongPlace
from workbench.store.documents.undo import Change, Step, UndoLog
from workbench.store.errors import FileChanged, StoreError
from workbench.store.files import Stamp, has_changed, make_folder, read_bytes, stamp_of, write_atomic, write_new


class EvalSetDocument(DocumentView):
    """One eval-set file: its text, its cases, and the edits made to it.

    Places are counted from the case where `case` is given, else from the set. Every edit is one step of `undo`; an edit
    that cannot be made raises StoreError and changes nothing. Nothing is written before `save`.
    """

    def __init__(self, path: Path, data: bytes, stamp: Stamp | None) -> None:
        """Use `open`; this takes content already in memory. `stamp` is None for a file that is not there yet."""
        self._stamp = stamp
        self._log = UndoLog()
        self._group: list[Change] | None = None
        super().__init__(path, data)
        self._saved = self._pieces

    @classmethod
    def open(cls, path: Path) -> EvalSetDocument:
        """Open a file. Raises StoreError where it cannot be read, or not even a list of cases can be had."""
        data, stamp = read_bytes(path)
        return cls(path, data, stamp)

    def set_value(self, place: Place, value: Any, *, case: int | None = None) -> None:
        """Replace the value at a place, or add it. Objects above it that are absent are added too.

        A list or object is compared with the one that is there, and only what differs is touched. Keys may be given in
        either style and are written in that of their neighbours.
        """
        self._edit(f"change {format_place(place)}", case, place, lambda fragment: fragment.set_value(place, value))

    def insert_item(self, place: Place, index: int, value: Any, *, case: int | None = None) -> None:
        """Insert a value into the list at a place."""
        label = f"insert into {format_place(place)}"
        self._edit(label, case, place, lambda fragment: fragment.insert_item(place, index, value))

    def remove_value(self, place: Place, *, case: int | None = None) -> None:
        """Remove the member or item at a place. Comments around it stay."""
        self._edit(f"remove {format_place(place)}", case, place, lambda fragment: fragment.remove(place))

    def move_item(self, place: Place, source: int, target: int, *, case: int | None = None) -> None:
        """Move an item of the list at a place, so that it stands at `target` afterwards."""
        label = f"move in {format_place(place)}"
        self._edit(label, case, place, lambda fragment: fragment.move_item(place, source, target))

    def rename_key(self, place: Place, key: str, *, case: int | None = None) -> None:
        """Give the member at a place another key, which no other member may have; it stays where it stands."""
        self._edit(f"rename {format_place(place)}", case, place, lambda fragment: fragment.rename(place, key))

    def set_case_text(self, index: int, text: str) -> None:
        """Replace the whole text of a case, broken or not. Raises StoreError, with the place in `text`."""
        text = text.strip()
        try:
            decode_tolerantly(text)
            data = text.encode()
        except BrokenJson as broken:
            line, column = position_of(text, broken.offset)
            message = f"line {line}, column {column} of the case: found {broken.found}, expected {broken.expected}"
            raise StoreError(self.path, message, place=format_place(self.place_of_case(index))) from broken
        except UnicodeEncodeError as error:
            raise StoreError(
                self.path, found="half of a surrogate pair", expected="text that UTF-8 can hold"
            ) from error
        self._commit(
            f"edit {self.entries[index].eval_id}",
            lambda pieces: editing.with_case(pieces, index, data, make_piece=self._make_piece),
        )

    def insert_case(self, index: int, data: Any) -> None:
        """Insert a case, given as data in the format of the file, written in the manner of the others."""
        self._refuse_unless_cases_can_move(index, len(self))
        self._commit(
            "insert a case", lambda pieces: editing.with_new_case(pieces, index, data, make_piece=self._make_piece)
        )

    def duplicate_case(self, index: int, *, eval_id: str) -> None:
        """Insert a copy of a case after it, under another id."""
        self._refuse_unless_cases_can_move(index, len(self) - 1)
        self.raw_case(index)
        key = "eval_id" if self.format is DocumentFormat.CURRENT else "name"
        with self.step(f"duplicate {self.entries[index].eval_id}"):
            self._commit("", lambda pieces: editing.with_copied_case(pieces, index))
            self.set_value((key,), eval_id, case=index + 1)

    def remove_case(self, index: int) -> None:
        """Remove a case. Comments around it stay."""
        self.remove_cases([index])

    def remove_cases(self, indexes: Collection[int]) -> None:
        """Remove cases, as one edit. Comments around them stay."""
        for index in indexes:
            self._refuse_unless_cases_can_move(index, len(self) - 1)
        entries = self.entries
        label = f"remove {', '.join(entries[index].eval_id for index in sorted(indexes)[:3])}"
        self._commit(label, lambda pieces: editing.without_cases(pieces, indexes))

    def move_case(self, source: int, target: int) -> None:
        """Move a case, so that it stands at `target` afterwards."""
        for index in (source, target):
            self._refuse_unless_cases_can_move(index, len(self) - 1)
        label = f"move {self.entries[source].eval_id}"
        self._commit(label, lambda pieces: editing.with_case_moved(pieces, source, target))

    def replace_content(self, data: bytes, *, label: str) -> None:
        """Replace the whole file, for instance with what a recovery file holds: unsaved, even where it is the same.

        Raises StoreError where `data` is no eval set.
        """
        pieces = self._read(data).sharing(self._pieces.cases)  # a change of one case is then kept as one case
        self._commit(label, lambda _: pieces)

    def recover(self, data: bytes, stamp: Stamp | None) -> None:
        """Take unsaved edits of an earlier session, which began on the file as `stamp` has it, as one step of undo.

        Saving then raises FileChanged where the file is another by now. Raises StoreError where `data` is no eval set.
        """
        self.replace_content(data, label="recover unsaved edits")
        self._stamp = stamp

    @contextmanager
    def step(self, label: str) -> Iterator[None]:
        """Make the edits inside one step of undo. Where one of them raises, none of them remains."""
        if self._group is not None:
            yield
            return
        before, self._group = self._pieces, []
        try:
            yield
        except BaseException:  # whatever ended the edits, Ctrl-C too: half a step must not stay
            self._group = None
            self._show(before)
            raise
        changes, self._group = self._group, None
        if changes:
            self._log.add(Step(label, tuple(changes)))

    def undo(self) -> str | None:
        """Take back the last step; gives what it was, None where there is none."""
        label = self._log.undoable
        if label is not None:
            self._show(self._log.undo(self._pieces))
        return label

    def redo(self) -> str | None:
        """Do again what was undone last; gives what it was, None where there is nothing."""
        label = self._log.redoable
        if label is not None:
            self._show(self._log.redo(self._pieces))
        return label

    @property
    def undoable(self) -> str | None:
        """What the next undo takes back, in words."""
        return self._log.undoable

    @property
    def redoable(self) -> str | None:
        """What the next redo does again, in words."""
        return self._log.redoable

    @property
    def steps_done(self) -> int:
        """How many steps could be undone one after the other."""
        return self._log.done

    @property
    def stamp(self) -> Stamp | None:
        """Which content the file had when it was last read or written; None where it is not there yet."""
        return self._stamp

    @property
    def dirty(self) -> bool:
        """Whether there are edits that are not on disk."""
        return self._log.dirty

    def changed_cases(self) -> frozenset[str]:
        """The ids of the cases that are not as they were last read or written; 10,000 cases take milliseconds."""
        if not self.dirty:
            return frozenset()
        saved = self._saved.cases
        same = set(map(id, saved))
        others = [index for index, case in enumerate(self._pieces.cases) if id(case) not in same]
        texts = {case.data for case in saved} if others else set()
        return frozenset(self.entries[index].eval_id for index in others if self._pieces.cases[index].data not in texts)

    def as_saved(self) -> EvalSetDocument | None:
        """The file that the unsaved edits were made to; None where that is not known, as where edits were recovered."""
        content = b"".join(self._saved)
        if self._stamp is None or stamp_of(content).digest != self._stamp.digest:
            return None
        return EvalSetDocument(self.path, content, self._stamp)

    def changed_on_disk(self) -> bool:
        """Whether the file is no longer what was read or written last."""
        return self._stamp is not None and has_changed(self.path, self._stamp)

    def save(self, *, overwrite: bool = False) -> None:
        """Write the file. Raises FileChanged where it changed on disk, unless the user chose to `overwrite` that."""
        if self._stamp is None and not overwrite:
            self._stamp = write_new(self.path, self.content())
        else:
            self._stamp = write_atomic(self.path, self.content(), expect=None if overwrite else self._stamp)
        self._mark_saved()

    def save_over(self, theirs: bytes | None) -> None:
        """Write the file in place of what was seen there (None: nothing). Raises FileChanged where that changed too."""
        if theirs is None:
            make_folder(self.path.parent)
            if self.path.exists():
                raise FileChanged(self.path, ours=self.content(), theirs=read_bytes(self.path)[0])
            self._stamp = write_new(self.path, self.content())
        else:
            self._stamp = write_atomic(self.path, self.content(), expect=stamp_of(theirs))
        self._mark_saved()

    def reload(self) -> None:
        """Take what is on disk now; an undo brings back what was here. Raises StoreError."""
        data, stamp = read_bytes(self.path)
        self.replace_content(data, label="take the file as it is on disk")
        self._stamp = stamp
        self._mark_saved()

    def _mark_saved(self) -> None:
        self._log.mark_saved()
        self._saved = self._pieces

    def _edit(self, label: str, case: int | None, place: Place, edit: Callable[[Fragment], str]) -> None:
        if case is not None:
            self.raw_case(case)
        above = () if case is None else self.place_of_case(case)
        try:
            if case is None:
                self._commit(label, lambda pieces: editing.edited_set(pieces, place, edit))
            else:
                self._commit(
                    label,
                    lambda pieces: editing.edited_case(pieces, case, edit, make_piece=self._make_piece),
                )
        except WrongPlace as wrong:
            where = format_place((*above, *wrong.place))
            raise StoreError(self.path, place=where, found=wrong.found, expected=wrong.expected) from wrong
        except BrokenJson as broken:
            message = f"found {broken.found}, expected {broken.expected}; mend the JSON of the file before editing this"
            raise StoreError(self.path, message) from broken

    def _commit(self, label: str, edit: Callable[[Pieces], Pieces]) -> None:
        """Make an edit and note it as a step, or as a part of the step that is being made."""
        before = self._pieces
        try:
            after = edit(before)
        except UnsafeEdit as unsafe:
            message = f"cannot {label}: the comments around it leave no safe place for it; edit the text of the case"
            raise StoreError(self.path, message) from unsafe
        except UnicodeEncodeError as error:
            raise StoreError(self.path, found="half of a surrogate pair", expected="text for UTF-8") from error
        except ValueError as error:
            raise StoreError(self.path, found="NaN or an infinite number", expected="a value that JSON has") from error
        if after is before:
            return
        self._show(after)
        change = Change.between(before, after)
        if self._group is not None:
            self._group.append(change)
        else:
            self._log.add(Step(label, (change,)))

    def _make_piece(self, data: bytes) -> CasePiece:
        text = data.decode()
        value, masked = decode_tolerantly(text)
        head = self._read_heads(text)[self.format](value)
        return CasePiece(data, head, strict=masked.strict)

    def _refuse_unless_cases_can_move(self, index: int, last: int) -> None:
        if self.format is DocumentFormat.LEGACY_TURNS:
            raise StoreError(self.path, "a list of turns is one case; migrate the file to have several")
        if self._pieces.ends.broken:
            raise StoreError(self.path, "the JSON around the cases is broken; mend it before moving cases")
        if not 0 <= index <= last:
            raise StoreError(self.path, found=f"case {index}", expected=f"0 to {last}")
