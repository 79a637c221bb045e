"""The pytest plugin: eval cases as tests, and recorded answers of models for tests that evaluate agents.

pytest imports this module in every session if the workbench is installed. Therefore other modules of the workbench are
imported only when an eval set is collected, or to detect eval sets if the project collects them.
"""

from __future__ import annotations

import sys
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from workbench.testing.pytest_session import (
    MARKER,
    RECORD_OPTION,
    REQUIRE_OPTION,
    WORKER_SUMMARY,
    get_model_calls,
    read_models,
    read_runs,
    read_timeout,
    requires_all_samples,
    session,
)

if TYPE_CHECKING:
    from workbench.testing.pytest_items import EvalSetFile

_SUFFIXES = (".evalset.json", ".test.json")
_WORKER_LINES = pytest.StashKey[list[str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add options of the command line, and of the configuration file if a project may set them permanently."""
    group = parser.getgroup("workbench", "eval sets of agents as tests")
    group.addoption(
        "--workbench",
        action="store_true",
        dest="workbench_collect",
        help="Collect the eval cases of *.evalset.json and *.test.json (always for files named as arguments).",
    )
    parser.addini("workbench_collect", "Collect the eval cases of eval sets.", type="bool", default=False)
    text = "Report a case as an error if fewer samples of a judge than num_samples are readable."
    group.addoption(REQUIRE_OPTION, action="store_true", dest="workbench_require_all_samples", help=text)
    parser.addini("workbench_require_all_samples", text, type="bool", default=False)
    for name, metavar, text in (
        ("target", "NAME", "The agent, instead of the one that belongs to the eval set."),
        ("config", "FILE", "Criteria for all eval sets, instead of their own."),
        ("runs", "N", "Repetitions per case."),
        ("timeout", "SECONDS", "Time limit per case."),
        ("replay", "FILE", "Take the answers of agents' models, judges and simulated users from this recording."),
        ("calls", "FILE", "Take only the answers of judges and simulated users from this recording."),
        ("models", "MODE", "The agents' models: live (ask them), auto (replay until a request differs) or replay."),
    ):
        group.addoption(f"--workbench-{name}", dest=f"workbench_{name}", metavar=metavar, help=text)
        parser.addini(f"workbench_{name}", text)
    group.addoption(
        RECORD_OPTION,
        action="store_true",
        dest="workbench_record",
        help="Call the models, and write their answers to the files of --workbench-calls and --workbench-replay, or of "
        "the marker.",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker, and refuse wrong values of options and recording in several processes."""
    config.addinivalue_line(
        "markers",
        f"{MARKER}(file): replay the answers of judge and user models from this file, relative to the test file; "
        f"{RECORD_OPTION} writes it",
    )
    for read in (read_models, read_runs, read_timeout):
        read(config)
    if config.getoption("workbench_record") and _is_distributed(config):
        raise pytest.UsageError(f"{RECORD_OPTION}: several processes cannot record into one file; leave -n out")
    session.depth += 1


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtestloop() -> Generator[None, object, object]:
    """End our processes before pytest-cov combines their measurements."""
    try:
        return (yield)
    finally:
        resources = sys.modules.get("workbench.testing.shared_resources")
        if resources is not None and session.depth == 1:
            resources.shared_workspaces.close()


def pytest_unconfigure() -> None:
    """End our processes."""
    session.depth = max(session.depth - 1, 0)  # a session whose configuration failed was not counted
    resources = sys.modules.get("workbench.testing.shared_resources")
    if resources is not None and not session.is_open:
        resources.shared_workspaces.close()


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> EvalSetFile | None:
    """Collect an eval set: always if it is named as an argument, else if the project enables it."""
    if not file_path.name.endswith(_SUFFIXES):
        return None
    if not parent.session.isinitpath(file_path):
        config = parent.config
        if not (config.getoption("workbench_collect") or config.getini("workbench_collect")):
            return None
        from workbench.store.files import is_eval_set

        if not is_eval_set(file_path):
            return None
    from workbench.testing.pytest_items import EvalSetFile

    # Not below its folder: if that is a package, pytest would import it and the agent.
    return EvalSetFile.from_parent(parent.session, path=file_path)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Set model calls, time limit and required samples for this test."""
    session.calls = get_model_calls(item)
    session.timeout_seconds = read_timeout(item.config)
    session.require_all_samples = requires_all_samples(item.config)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Collect the summary of a process of pytest-xdist. Several processes have the same notices."""
    notices, lines = getattr(node, "workeroutput", {}).get(WORKER_SUMMARY, ((), ()))  # a crashed one sends nothing
    known = node.config.stash.setdefault(_WORKER_LINES, [])
    known += [*(notice for notice in notices if notice not in known), *lines]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Write the summaries of the processes of pytest-xdist."""
    lines = terminalreporter.config.stash.get(_WORKER_LINES, [])
    if lines:
        terminalreporter.section("workbench")
        for line in lines:
            terminalreporter.write_line(line)


def _is_distributed(config: pytest.Config) -> bool:
    """True if pytest-xdist distributes the tests over processes."""
    return hasattr(config, "workerinput") or config.getoption("dist", "no") != "no"
