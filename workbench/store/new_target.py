"""Adding a target to `workbench.toml`: a table at its end, everything else in it as it was, byte by byte."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from pathlib import Path

from workbench.model.base import Fact
from workbench.store.errors import StoreError
from workbench.store.files import decode_utf8, read_bytes, write_atomic, write_new
from workbench.store.settings import FILE_NAME, check_settings
from workbench.store.toml import TomlFile, read_toml

LOCATIONS = {
    "function": "the function, as package.module:callable",
    "adk": "the folder of the agent",
    "langchain": "the chain or graph, as package.module:name",
    "agent_engine": "the object, as package.module:name, or projects/.../reasoningEngines/ID",
    "a2a": "the URL of the agent or its card",
    "http": "the URL",
    "command": "the program with its arguments",
    "recorded": "the file with the recorded sessions",
}
"""What says where an agent is, by its kind: what a new target is asked for."""


class NewTarget(Fact):
    """What is asked of a new target; `eval_sets` are patterns, none where its sets are found by their place."""

    name: str
    kind: str
    location: str
    eval_sets: tuple[str, ...] = ()


def check_target(target: NewTarget) -> None:
    """Raise StoreError where no project could have such a target: its `place` and `message` say why. Reads nothing."""
    if not target.name or not target.name.isprintable():
        raise StoreError(Path(FILE_NAME), place="targets", found=repr(target.name), expected="the name of a target")
    check_settings(TomlFile(Path(FILE_NAME), _table(target)))


def add_target(target: NewTarget, root: Path) -> Path:
    """Write a target into the settings of the project at `root`, which need not have any; returns the file.

    Raises StoreError where that cannot be, and then nothing has changed.
    """
    check_target(target)
    path = root / FILE_NAME
    before = read_toml(path)
    check_settings(before)
    if target.name in before.data.get("targets", {}):
        raise StoreError(path, "there is a target of that name already", place=f"targets.{target.name}")
    table = _table(target)
    if not path.exists():
        write_new(path, table.encode())
        return path
    data, stamp = read_bytes(path)
    text = decode_utf8(path, data)
    newline = "\r\n" if "\r\n" in text else "\n"
    gap = "" if not text.strip("\ufeff\r\n ") else newline if text.endswith("\n") else 2 * newline
    grown = text + gap + table.replace("\n", newline)
    try:
        check_settings(TomlFile(path, grown.removeprefix("\ufeff")))
    except tomllib.TOMLDecodeError as error:  # `targets = { ... }` on one line, which nothing can be added to
        raise StoreError(path, f"no table can be added to it: {error}", place="targets") from None
    write_atomic(path, grown.encode(), expect=stamp)
    return path


def eval_sets_by_default(kind: str, name: str) -> Sequence[str]:
    """The patterns that suit a new target: of agents without code here nothing else says which sets are theirs."""
    return () if kind in ("function", "adk", "langchain", "agent_engine") else (f"{name}/*.evalset.json",)


def _table(target: NewTarget) -> str:
    import tomlkit

    table = tomlkit.table()
    table["kind"] = target.kind
    table["target"] = target.location
    if target.eval_sets:
        table["eval_sets"] = list(target.eval_sets)
    tables = tomlkit.table(is_super_table=True)
    tables[target.name] = table
    document = tomlkit.document()
    document["targets"] = tables
    return tomlkit.dumps(document)
