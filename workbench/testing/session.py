"""What the pytest plugin tells the API of the test that runs. Imported with pytest: it imports next to nothing."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

RECORD_OPTION = "--workbench-record"
"""The option of pytest that records what models answer."""


@dataclass(frozen=True)
class ModelCalls:
    """Where models that judge or play users answer from: `file`, or with `record` themselves, and into the file.

    Without a file they are asked, and nothing is written.
    """

    file: Path | None = None
    record: bool = False


@dataclass
class TestSession:
    """The pytest session that goes on in this process, and the calls of models of the test that runs now.

    `is_open`: somebody will close what tests share; without a session nothing is shared.
    """

    __test__ = False  # it is no test, whatever its name begins with

    is_open: bool = False
    calls: ModelCalls = ModelCalls()


session = TestSession()
