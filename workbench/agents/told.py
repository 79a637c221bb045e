"""What workers tell of dependencies, read."""

from __future__ import annotations

import sys
import time

from workbench.agents.channel import Message
from workbench.model.dependencies import Dependencies, Dependency, DependencyKind

_ASKED = frozenset({DependencyKind.FILE, DependencyKind.PROBE, DependencyKind.TIME, DependencyKind.MODE})
_FILE = DependencyKind.FILE


def dependencies_told(before: Dependencies | None, message: Message) -> Dependencies:
    """What was told before and now. Raises TypeError or ValueError where the message has not the shape it should."""
    intern = sys.intern  # thousands of cases tell the same words
    rows = [Dependency(intern(kind), intern(key), intern(value)) for kind, key, value in message["rows"]]
    told = (before or Dependencies()).with_rows(
        rows, complete=message["complete"], tainted=message["tainted"], told_at=time.time()
    )
    return _without_own_work(told)


def _without_own_work(told: Dependencies) -> Dependencies:
    """What a case asked about a file before it wrote that file is no longer so: what counts is how the case left it.

    How it found the file is kept beside that: it tells whose work the case went on with.
    """
    written = {row.key: row for row in told.rows if row.kind in (DependencyKind.STATE, DependencyKind.WRITTEN)}
    if not written:
        return told
    asked = {row for row in told.rows if row.kind in _ASKED and row.key in written}
    if not asked:
        return told
    found = {Dependency(DependencyKind.FOUND.value, row.key, row.fingerprint) for row in asked if row.kind == _FILE}
    states = {Dependency(DependencyKind.STATE.value, row.key, written[row.key].fingerprint) for row in asked}
    replaced = {written[row.key] for row in asked}
    return told.model_copy(update={"rows": told.rows - asked - replaced | states | found})
