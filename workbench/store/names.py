"""Names of eval-set files: their endings, and what they give an id to that has none of its own."""

from __future__ import annotations

from pathlib import PurePath

EVAL_SET_SUFFIX = ".evalset.json"
TEST_SUFFIX = ".test.json"
EVAL_SET_SUFFIXES = (EVAL_SET_SUFFIX, TEST_SUFFIX)
"""What tells an eval set from other JSON files."""


def name_of_file(path: PurePath) -> str:
    """The file's name without the endings of eval sets: safe as an id, for it has no "/"."""
    for suffix in (*EVAL_SET_SUFFIXES, ".json"):
        if path.name.endswith(suffix) and path.name != suffix:
            return path.name.removesuffix(suffix)
    return path.name


def is_no_json(name: str) -> bool:
    """Whether a file has another ending than `.json`: among those that are judged it is a dataset then."""
    return PurePath(name).suffix.lower() != ".json"
