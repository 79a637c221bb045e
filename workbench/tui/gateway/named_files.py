"""The files that sentences about problems begin with."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from workbench.tui.state.problems import named_in


def files_named_in(messages: Iterable[str], *, root: Path) -> dict[str, Path]:
    """The files with which these sentences begin, by their names there, which are relative to `root`."""
    names = {name for message in messages if (name := named_in(message)) is not None}
    return {name: path for name in names if _is_file(path := root / name)}


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):  # a sentence may begin with anything
        return False
