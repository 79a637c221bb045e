"""Reading what judge models reply: JSON as they were asked for, or whatever else still says it without doubt.

A reply that does not say it is no opinion; it is never taken for a no.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from workbench.metrics.definition import Opinion
from workbench.model.text import one_line

_SHOWN = 120  # characters of a reply in a problem

_VALID = frozenset({"valid", "true", "yes", "correct"})
_INVALID = frozenset({"invalid", "false", "no", "incorrect", "partially valid", "partially", "partly valid", "almost"})
_YES = frozenset({"yes", "true", "not applicable", "n/a", "na"})
_NO = frozenset({"no", "false"})
_VERDICT_KEYS = ("verdict", "is the agent response valid", "is valid")
_LABELLED = re.compile(
    r"\b(?:verdict|is[_ ]the[_ ]agent[_ ]response[_ ]valid|is[_ ]valid)\b\W{0,8}([^\n,.;}\])]+)", re.I
)
_BLOCK_LINE = re.compile(
    r"^\W*(id|property|evidence|rationale|verdict)\W{0,3}:\s*(.*)$",
    re.IGNORECASE,
)


def read_verdict(reply: str) -> Opinion:
    """Valid (1) or invalid (0), with the reasoning."""
    for found in _objects(reply):
        values = {_plain(key): value for key, value in found.items()}
        verdict = next((values[key] for key in _VERDICT_KEYS if key in values), None)
        score = _score(verdict, _VALID, _INVALID)
        if score is not None:
            return Opinion(score, _text(values.get("reasoning") or values.get("rationale")))
    labels = {_score(match[1], _VALID, _INVALID) for match in _LABELLED.finditer(reply)}
    if len(labels) == 1 and (score := labels.pop()) is not None:
        return Opinion(score, reply.strip())
    whole = _score(reply, _VALID, _INVALID)
    if whole is not None:
        return Opinion(whole)
    return Opinion(problem=_unread(reply, "the verdict valid or invalid"))


def read_rubrics(reply: str, rubrics: Mapping[str, str]) -> Opinion:
    """Yes (1) or no (0) for each rubric, found by its id, else by its text."""
    by_text = {_plain(text): rubric_id for rubric_id, text in rubrics.items()}
    said: dict[str, tuple[float | None, str]] = {}
    for entry in (*_entries(reply), *_blocks(reply)):
        values = {_plain(key): value for key, value in entry.items()}
        named = _text(values.get("id")).strip("[]() ")
        rubric_id = named if named in rubrics else by_text.get(_plain(_text(values.get("property") or named)))
        if rubric_id is not None and rubric_id not in said:
            rationale = _text(values.get("rationale") or values.get("evidence"))
            said[rubric_id] = (_score(values.get("verdict"), _YES, _NO), rationale)
    if not any(score is not None for score, _ in said.values()):
        return Opinion(problem=_unread(reply, "a yes or no for each property"))
    return Opinion(rubrics=said)


def _entries(reply: str) -> Iterator[Mapping[str, Any]]:
    for found in _objects(reply):
        lists = [value for value in found.values() if isinstance(value, Sequence) and not isinstance(value, str)]
        for each in lists:
            yield from (item for item in each if isinstance(item, Mapping))
        if "verdict" in {_plain(key) for key in found}:
            yield found
        for key, value in found.items():  # {"rubric id": {"verdict": ...}}
            if isinstance(value, Mapping):
                yield {"id": key, **value}


def _blocks(reply: str) -> Iterator[Mapping[str, str]]:
    """Blocks of `Property: ...`, `Rationale: ...`, `Verdict: ...` lines, each ended by its verdict."""
    block: dict[str, str] = {}
    key = ""
    for line in reply.splitlines():
        match = _BLOCK_LINE.match(line)
        if match is None:
            if key and line.strip():
                block[key] += f" {line.strip()}"
            continue
        key = match[1].lower()
        block[key] = match[2].strip().strip("*_` ")
        if key == "verdict":
            yield block
            block, key = {}, ""


def _objects(reply: str) -> Iterator[dict[str, Any]]:
    """The JSON objects in a text, whatever stands around them."""
    decoder = json.JSONDecoder()
    position = 0
    while (start := reply.find("{", position)) >= 0:
        try:
            found, position = decoder.raw_decode(reply, start)
        except (ValueError, RecursionError):
            position = start + 1
            continue
        if isinstance(found, dict):
            yield found


def _score(value: Any, yes: frozenset[str], no: frozenset[str]) -> float | None:
    if isinstance(value, bool):
        return 1.0 if value else 0.0
    if not isinstance(value, str):
        return None
    word = _plain(value)
    return 1.0 if word in yes else 0.0 if word in no else None


def _plain(text: str) -> str:
    """Without case, marks of Markdown, quotes, underscores and the differences between ways to write a character."""
    folded = unicodedata.normalize("NFKC", text).casefold().replace("_", " ")
    return " ".join(folded.translate(_DECORATION).split())


_DECORATION = {ord(mark): None for mark in "*`\"'\u2018\u2019\u201c\u201d.!:"}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else "" if value is None else json.dumps(value, ensure_ascii=False)


def _unread(reply: str, wanted: str) -> str:
    return f"the reply does not say {wanted}: {one_line(reply, width=_SHOWN)}"
