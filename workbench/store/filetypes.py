"""Which file holds what, by its name and its content."""

from __future__ import annotations

import codecs
import json
import re
from pathlib import Path, PurePath

# Names of eval-set files: their endings, and what they give an id to that has none of its own.

EVAL_SET_SUFFIX = ".evalset.json"
TEST_SUFFIX = ".test.json"
EVAL_SET_SUFFIXES = (EVAL_SET_SUFFIX, TEST_SUFFIX)
"""What tells an eval set from other JSON files."""


def derive_set_name(path: PurePath) -> str:
    """The file's name without the endings of eval sets: safe as an id, for it has no "/"."""
    for suffix in (*EVAL_SET_SUFFIXES, ".json"):
        if path.name.endswith(suffix) and path.name != suffix:
            return path.name.removesuffix(suffix)
    return path.name


def is_dataset_name(name: str) -> bool:
    """Whether a file has another ending than `.json`: among those that are judged it is a dataset then."""
    return PurePath(name).suffix.lower() != ".json"


# Which files with the name of an eval set are one: other programs have `*.test.json` too.

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
"""What an eval set says, broken or not, also in quotes that JSON does not have. Those of the older formats are lists of
objects that expect something: a `query` alone, in a list or not, may be one of GraphQL."""
_EXPECTED = frozenset({"expected_tool_use", "expected_intermediate_agent_responses", "reference"})
_OF_EVALS = frozenset({"data", "initial_session"})


def is_eval_set(file: Path) -> bool:
    """Whether a file that nobody named is an eval set, broken or not; other names than `*.test.json` say so alone.

    An empty one, one that cannot be read and one that is not UTF-8 are taken for one: nothing shows that they are
    somebody else's, and nobody would miss a set that is left out in silence.
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
    """Whether JSON is a list of which nothing is a turn, or a named eval, of the older formats. Broken JSON is none."""
    if not text.removeprefix(codecs.BOM_UTF8).lstrip().startswith(b"["):  # and may be large
        return False
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return False
    if not isinstance(data, list):
        return False
    objects = [item for item in data if isinstance(item, dict)]
    return not any(_OF_EVALS & item.keys() or ("query" in item and _EXPECTED & item.keys()) for item in objects)
