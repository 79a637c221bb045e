"""Shared helpers for tests of open documents: files of eval sets, and edits of them."""

from __future__ import annotations

import json
from pathlib import Path

from workbench.engine.open_documents import OpenDocuments

LIGHTS = "sets/lights.evalset.json"


def case(eval_id: str, prompt: str = "hello") -> dict[str, object]:
    return {"eval_id": eval_id, "conversation": [{"user_content": {"parts": [{"text": prompt}]}}]}


def write_set(root: Path, name: str, *eval_ids: str, set_name: str = "lights") -> Path:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    data = {"eval_set_id": "lights", "name": set_name, "eval_cases": [case(eval_id) for eval_id in eval_ids]}
    path.write_text(json.dumps(data, indent=2) + "\n")
    return path


def make_rename(name: str):  # type: ignore[no-untyped-def]
    return lambda document: document.set_value(("name",), name)


def make_prompt_edit(text: str, *, index: int = 0):  # type: ignore[no-untyped-def]
    place = ("conversation", 0, "user_content", "parts", 0, "text")
    return lambda document: document.set_value(place, text, case=index)


def make_unsaved_edit(documents: OpenDocuments, name: str = "ours") -> None:
    documents.edit(LIGHTS, make_rename(name), label="rename")
