"""Where the rows of a table are exported to, and in which format: the ending of the name tells.

The disk is looked at while the name is being typed, so it is asked here, on the event loop, and not in the thread.
"""

from __future__ import annotations

from pathlib import Path

_FORMATS = {".csv": "csv", ".md": "markdown", ".json": "json", ".jsonl": "jsonl", ".xml": "junit"}


def suggested_path(run_id: str | None) -> str:
    """A name to begin with."""
    return f"{run_id or 'results'}.csv"


def path_of(text: str) -> Path:
    """The file that a text names."""
    return Path(text.strip()).expanduser()


def is_there(path: Path) -> bool:
    """Whether writing would replace something."""
    return path.exists()


def format_of(path: Path) -> str:
    """The format of a file whose name has passed `export_problem`."""
    return _FORMATS[path.suffix.lower()]


def export_problem(text: str) -> str | None:
    """What is wrong with a path to write to, in a sentence; None where nothing is."""
    path = path_of(text)
    if not text.strip():
        return "where to? Give the name of a file"
    if path.suffix.lower() not in _FORMATS:
        return f"the name must end in one of {', '.join(_FORMATS)}, which tells the format"
    if path.is_dir():
        return "that is a folder; give the name of a file"
    if not path.parent.is_dir():
        return f"there is no folder {path.parent}"
    return None
