"""What the pytest plugin tells the API of the test that runs. Imported with pytest: it imports next to nothing."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

RECORD_OPTION = "--workbench-record"
"""The option of pytest that records what models answer."""

REQUIRE_OPTION = "--workbench-require-all-samples"
"""The option of pytest by which a verdict that lacks samples of a judge does not count."""

ALL_REQUIRED = f"all samples are required ({REQUIRE_OPTION}, or require_all_samples under [judge] in workbench.toml)"
"""Why such a verdict does not count."""


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

    Sessions may be nested, as where a plugin is tested. While one `is_open` somebody will close what tests share;
    without one nothing is shared.
    """

    __test__ = False  # it is no test, whatever its name begins with

    depth: int = 0
    calls: ModelCalls = ModelCalls()
    timeout_seconds: float | None = None  # for one case, where the session says so
    require_all_samples: bool | None = None  # None: as the settings of the project say

    @property
    def is_open(self) -> bool:
        """Whether a session goes on."""
        return self.depth > 0


session = TestSession()
