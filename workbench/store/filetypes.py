"""Types of files, by name and content."""

from __future__ import annotations

import codecs
import json
import re
from pathlib import Path, PurePath

# Names of eval-set files: their suffixes, and default ids

EVAL_SET_SUFFIX = ".evalset.json"
TEST_SUFFIX = ".test.json"
EVAL_SET_SUFFIXES = (EVAL_SET_SUFFIX, TEST_SUFFIX)
"""Suffixes of eval sets among other JSON files."""


def derive_set_name(path: PurePath) -> str:
    """Return the name of the file without the suffixes of eval sets; it is a safe id, without "/"."""
    for suffix in (*EVAL_SET_SUFFIXES, ".json"):
        if path.name.endswith(suffix) and path.name != suffix:
            return path.name.removesuffix(suffix)
    return path.name


def is_dataset_name(name: str) -> bool:
    """True if a file has another suffix than `.json`; among files to score it is then a dataset."""
    return PurePath(name).suffix.lower() != ".json"


# Eval sets among `*.test.json`, which other programs use as well

_QUOTE = rb"(?:[\"']|\xe2\x80[\x98-\x9f])"
_KEY = _QUOTE + rb"(?:%b)" + _QUOTE + rb"\s*:"
_SAYS_SO = re.compile(
    _KEY % rb"eval_?cases?|eval_?set_?id|initial_?session"
    + rb"|\A(?:\xef\xbb\xbf)?\s*\[\s*\{(?=.*"
    + _KEY % rb"query"
    + rb").*"
    + _KEY % rb"expected_tool_use|expected_intermediate_agent_responses|reference",
    re.IGNORECASE | re.DOTALL,
)
"""Keys of an eval set, valid or not, also in quotes that JSON does not allow.

The older formats are lists of objects with expectations: a `query` alone may belong to GraphQL.
"""
_EXPECTED = frozenset({"expected_tool_use", "expected_intermediate_agent_responses", "reference"})
_OF_EVALS = frozenset({"data", "initial_session"})


def is_eval_set(file: Path) -> bool:
    """True if a file found in a folder is an eval set, valid or not. Only `*.test.json` needs a look at the content.

    Files that are empty, unreadable or not UTF-8 count as eval sets: an omitted set would not be noticed.
    """
    if not file.name.endswith(TEST_SUFFIX):
        return True
    try:
        text = file.read_bytes()
        text.decode()
    except (OSError, UnicodeDecodeError):
        return True
    return not text.strip() or (_SAYS_SO.search(text) is not None and not _is_foreign_list(text))


def _is_foreign_list(text: bytes) -> bool:
    """True if JSON is a list without any turn or named eval of the older formats. Broken JSON is not."""
    if not text.removeprefix(codecs.BOM_UTF8).lstrip().startswith(b"["):  # it may be large
        return False
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return False
    if not isinstance(data, list):
        return False
    objects = [item for item in data if isinstance(item, dict)]
    return not any(_OF_EVALS & item.keys() or ("query" in item and _EXPECTED & item.keys()) for item in objects)
