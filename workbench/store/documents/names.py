"""Names that come from file names, where a file has none of its own."""

from __future__ import annotations

from pathlib import Path

EVALSET_SUFFIX = ".evalset.json"
TEST_SUFFIX = ".test.json"


def name_of_file(path: Path) -> str:
    """The file's name without the endings of eval sets: safe as an id, for it has no "/"."""
    for suffix in (EVALSET_SUFFIX, TEST_SUFFIX, ".json"):
        if path.name.endswith(suffix) and path.name != suffix:
            return path.name.removesuffix(suffix)
    return path.name
