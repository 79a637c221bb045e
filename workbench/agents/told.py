"""What workers tell of dependencies, read."""

from __future__ import annotations

import sys

from workbench.agents.channel import Message
from workbench.model.dependencies import Dependencies, Dependency


def dependencies_told(before: Dependencies | None, message: Message) -> Dependencies:
    """What was told before and now. Raises TypeError or ValueError where the message has not the shape it should."""
    intern = sys.intern  # thousands of cases tell the same words
    rows = [Dependency(intern(kind), intern(key), intern(value)) for kind, key, value in message["rows"]]
    return (before or Dependencies()).with_rows(rows, complete=message["complete"], tainted=message["tainted"])
