"""How the screen was left in each project, kept in the user's folder for the state of programs.

Nothing of it matters to a result: a file that cannot be read is as good as none.
"""

from __future__ import annotations

import hashlib
from contextlib import suppress
from pathlib import Path

from platformdirs import user_state_path
from pydantic import ValidationError

from workbench.model.base import Fact
from workbench.model.keys import CaseKey
from workbench.store.errors import StoreError
from workbench.store.files import make_folder, remove_leftovers, write_atomic


class Layout(Fact):
    """How the screen was left.

    `left_width` is in cells, None as the stylesheet has it. `theme` is None where none was chosen on the screen.
    `watching`: whether watch was on, paused or not.
    `folded` are targets (with an empty eval set) and eval sets; `selected` is a target, the path of one of its sets
    (empty for the target itself), and the case, None for what is above a case.
    """

    tab: str = "diff"
    drawer: str | None = None
    left_width: int | None = None
    theme: str | None = None
    watching: bool = False
    folded: tuple[tuple[str, str], ...] = ()
    selected: tuple[str, str, CaseKey | None] | None = None


class Layouts:
    """The layouts of all projects, below one folder."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder or user_state_path("workbench", appauthor=False) / "layouts"

    def load(self, root: Path) -> Layout:
        """How a project was left; the default where that is not known."""
        try:
            return Layout.model_validate_json(self._file(root).read_bytes())
        except (OSError, ValidationError):
            return Layout()

    def save(self, root: Path, layout: Layout) -> None:
        """Keep how a project is left; where it cannot be kept, the next session begins as the first one did."""
        with suppress(StoreError):
            make_folder(self._folder)
            remove_leftovers([self._folder])
            write_atomic(self._file(root), layout.model_dump_json().encode())

    def _file(self, root: Path) -> Path:
        digest = hashlib.sha256(str(root.resolve()).encode("utf-8", "surrogateescape")).hexdigest()[:16]
        return self._folder / f"{digest}.json"
