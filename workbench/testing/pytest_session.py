"""Options and state of the pytest session. pytest and the API always import this module, so it has few imports."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest


RECORD_OPTION = "--workbench-record"
"""The option of pytest that records the answers of models."""

REQUIRE_OPTION = "--workbench-require-all-samples"
"""The option of pytest that turns a pass with missing samples into an error."""

ALL_REQUIRED = f"all samples are required ({REQUIRE_OPTION}, or require_all_samples under [judge] in workbench.toml)"
"""The reason of such an error."""


WORKER_SUMMARY = "workbench"
"""The key under which a process of pytest-xdist sends its lines for the end of the session."""


@dataclass(frozen=True)
class ModelRecording:
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
    calls: ModelRecording = ModelRecording()
    timeout_seconds: float | None = None  # for one case; None: as in the settings of the project
    require_all_samples: bool | None = None  # None: as in the settings of the project

    @property
    def is_open(self) -> bool:
        return self.depth > 0


session = TestSession()


# Options and marker of the plugin, read for a session or a test.

MARKER = "workbench_calls"
"""The marker that names the recording of a test."""
_MODES = ("live", "auto", "replay")  # those of ModelMode, whose module has more imports


def get_model_calls(item: pytest.Item | pytest.Session) -> ModelRecording:
    """Return the model calls of a test: the file of the marker, else that of the session."""
    config = item.config
    record = bool(config.getoption("workbench_record"))
    marker = item.get_closest_marker(MARKER)
    if marker is not None:
        if len(marker.args) != 1:
            import pytest

            raise pytest.UsageError(f"{MARKER}: found {len(marker.args)} arguments, expected one file")
        return ModelRecording(item.path.parent / marker.args[0], record)
    return ModelRecording(path_option(config, "calls"), record)


def read_models(config: pytest.Config) -> str | None:
    """Read how the agents' models are asked; None if no option says it. Raises UsageError."""
    mode = text_option(config, "models")
    if mode not in (None, *_MODES):
        import pytest

        raise pytest.UsageError(f"--workbench-models: found {mode!r}, expected {', '.join(_MODES)}")
    return mode


def text_option(config: pytest.Config, name: str) -> str | None:
    """Read an option from the command line, else from the configuration file of pytest, else None."""
    value: str | None = config.getoption(f"workbench_{name}")
    return value or config.getini(f"workbench_{name}") or None


def read_runs(config: pytest.Config) -> int | float | None:
    """Read the repetitions of each case; None if they are not given. Raises UsageError."""
    return _number_option(config, "runs", int, "a number of at least 1")


def read_timeout(config: pytest.Config) -> int | float | None:
    """Read the time limit of a case in seconds; None if it is not given. Raises UsageError."""
    return _number_option(config, "timeout", float, "a number of seconds above 0")


def _number_option(
    config: pytest.Config, name: str, parse: type[int] | type[float], expected: str
) -> int | float | None:
    """Read an option that is a number above 0. Raises UsageError for any other value."""
    text = text_option(config, name)
    try:
        value = None if text is None else parse(text)
    except ValueError:
        value = 0
    if value is not None and not 0 < value < float("inf"):
        import pytest

        raise pytest.UsageError(f"--workbench-{name}: found {text!r}, expected {expected}")
    return value


def requires_all_samples(config: pytest.Config) -> bool | None:
    """Return True if all samples are required; None if the settings of the project decide."""
    name = "workbench_require_all_samples"
    return bool(config.getoption(name) or config.getini(name)) or None


def path_option(config: pytest.Config, name: str) -> Path | None:
    """Read a file option: relative to the working directory on the command line, else to the root of pytest."""
    argument: str | None = config.getoption(f"workbench_{name}")
    if argument:
        return config.invocation_params.dir / argument
    configured = config.getini(f"workbench_{name}")
    return config.rootpath / configured if configured else None
