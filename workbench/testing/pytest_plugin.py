"""The pytest plugin: eval cases as tests, and recorded answers of models for tests that evaluate agents.

pytest imports this module in every session of everybody who has the workbench installed: nothing else of ours is
imported before an eval set is collected, but for what tells eval sets from other files where the project collects them.
"""

from __future__ import annotations

import sys
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from workbench.testing.pytest_session import RECORD_OPTION, REQUIRE_OPTION, ModelCalls, session

if TYPE_CHECKING:
    from workbench.testing.pytest_items import EvalSetFile

_SUFFIXES = (".evalset.json", ".test.json")
_MARKER = "workbench_calls"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options of the command line; those that a project may have for good are in its configuration file too."""
    group = parser.getgroup("workbench", "eval sets of agents as tests")
    group.addoption(
        "--workbench",
        action="store_true",
        dest="workbench_collect",
        help="Collect the eval cases of *.evalset.json and *.test.json (of files that are named they always are).",
    )
    parser.addini("workbench_collect", "Collect the eval cases of eval sets.", type="bool", default=False)
    text = "Report a case as an error if a verdict on it rests on fewer samples of a judge than num_samples."
    group.addoption(REQUIRE_OPTION, action="store_true", dest="workbench_require_all_samples", help=text)
    parser.addini("workbench_require_all_samples", text, type="bool", default=False)
    for name, metavar, text in (
        ("target", "NAME", "The agent, instead of the one that belongs to the eval set."),
        ("config", "FILE", "Criteria for all eval sets, instead of their own."),
        ("runs", "N", "Run each case so many times."),
        ("timeout", "SECONDS", "How long one case may take."),
        (
            "calls",
            "FILE",
            "File with the answers of models that judge or play users: none of them is asked.",
        ),
    ):
        group.addoption(f"--workbench-{name}", dest=f"workbench_{name}", metavar=metavar, help=text)
        parser.addini(f"workbench_{name}", text)
    group.addoption(
        RECORD_OPTION,
        action="store_true",
        dest="workbench_record",
        help="Ask the models, and write their answers to the file of --workbench-calls, or of the marker.",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known, and refuse what cannot be."""
    config.addinivalue_line(
        "markers",
        f"{_MARKER}(file): models that judge or play users answer from this file, relative to the test's; "
        f"{RECORD_OPTION} writes it",
    )
    if config.getoption("workbench_record") and _is_distributed(config):
        raise pytest.UsageError(f"{RECORD_OPTION}: several processes cannot record into one file; leave -n out")
    session.depth += 1


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtestloop() -> Generator[None, object, object]:
    """End every process of ours before pytest-cov combines what they have measured."""
    try:
        return (yield)
    finally:
        workspaces = sys.modules.get("workbench.testing.pytest_workspaces")
        if workspaces is not None and session.depth == 1:
            workspaces.shared_workspaces.close()


def pytest_unconfigure() -> None:
    """End every process of ours."""
    session.depth = max(session.depth - 1, 0)  # one that could not be configured is not counted
    workspaces = sys.modules.get("workbench.testing.pytest_workspaces")
    if workspaces is not None and not session.is_open:
        workspaces.shared_workspaces.close()


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> EvalSetFile | None:
    """The eval set that a file is. One that was named is always taken for one; others where the project says so."""
    if not file_path.name.endswith(_SUFFIXES):
        return None
    if not parent.session.isinitpath(file_path):
        config = parent.config
        if not (config.getoption("workbench_collect") or config.getini("workbench_collect")):
            return None
        from workbench.store.filetypes import is_eval_set

        if not is_eval_set(file_path):
            return None
    from workbench.testing.pytest_items import EvalSetFile

    # Not below its folder: where that is a package pytest would import it, and with it the agent.
    return EvalSetFile.from_parent(parent.session, path=file_path)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Say where models answer from in this test, how long a case of it may take, and which verdicts count."""
    session.calls = get_model_calls(item)
    session.timeout_seconds = number_option(item.config, "timeout", float, "a number of seconds above 0")
    session.require_all_samples = requires_all_samples(item.config)


def get_model_calls(item: pytest.Item | pytest.Session) -> ModelCalls:
    """Where models answer from: the file of the marker, else that of the session."""
    config = item.config
    record = bool(config.getoption("workbench_record"))
    marker = item.get_closest_marker(_MARKER)
    if marker is not None:
        if len(marker.args) != 1:
            raise pytest.UsageError(f"{_MARKER}: found {len(marker.args)} arguments, expected one file")
        return ModelCalls(item.path.parent / marker.args[0], record)
    return ModelCalls(path_option(config, "calls"), record)


def text_option(config: pytest.Config, name: str) -> str | None:
    """An option: as the command line says, else the configuration file of pytest, else None."""
    given: str | None = config.getoption(f"workbench_{name}")
    return given or config.getini(f"workbench_{name}") or None


def number_option(config: pytest.Config, name: str, read: type[int] | type[float], expected: str) -> int | float | None:
    """An option that is a number above 0. Raises UsageError for what is none."""
    text = text_option(config, name)
    try:
        value = None if text is None else read(text)
    except ValueError:
        value = 0
    if value is not None and not 0 < value < float("inf"):
        raise pytest.UsageError(f"--workbench-{name}: found {text!r}, expected {expected}")
    return value


def requires_all_samples(config: pytest.Config) -> bool | None:
    """True if no verdict may lack samples of a judge; None if the settings of the project decide."""
    name = "workbench_require_all_samples"
    return bool(config.getoption(name) or config.getini(name)) or None


def path_option(config: pytest.Config, name: str) -> Path | None:
    """A file: relative to the working directory on the command line, to pytest's root in its configuration file."""
    given: str | None = config.getoption(f"workbench_{name}")
    if given:
        return config.invocation_params.dir / given
    configured = config.getini(f"workbench_{name}")
    return config.rootpath / configured if configured else None


def _is_distributed(config: pytest.Config) -> bool:
    """Whether pytest-xdist spreads the tests over processes."""
    return hasattr(config, "workerinput") or config.getoption("dist", "no") != "no"
