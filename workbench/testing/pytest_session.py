"""The state of the pytest session, for the API. pytest always imports this module, so it has few imports."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

RECORD_OPTION = "--workbench-record"
"""The option of pytest that records the answers of models."""

REQUIRE_OPTION = "--workbench-require-all-samples"
"""The option of pytest that turns a pass with missing samples into an error."""

ALL_REQUIRED = f"all samples are required ({REQUIRE_OPTION}, or require_all_samples under [judge] in workbench.toml)"
"""The reason of such an error."""


@dataclass(frozen=True)
class ModelCalls:
    """The recording of judge and user models: it is replayed from `file` or, with `record`, written to it.

    Without a file the models are called and nothing is recorded.
    """

    file: Path | None = None
    record: bool = False


@dataclass
class TestSession:
    """The running pytest session in this process, and the model calls of the current test.

    Sessions may be nested, as in tests of a plugin. Tests share workspaces only while a session `is_open`, because its
    end closes them.
    """

    __test__ = False  # pytest must not collect this class

    depth: int = 0
    calls: ModelCalls = ModelCalls()
    timeout_seconds: float | None = None  # for one case; None: as in the settings of the project
    require_all_samples: bool | None = None  # None: as in the settings of the project

    @property
    def is_open(self) -> bool:
        """True while a session runs."""
        return self.depth > 0


session = TestSession()
