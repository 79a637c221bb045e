"""Fixtures and hooks of all tests: reasons to skip a test, and the means to forbid skipping.

`WORKBENCH_REQUIRE=tmux,adk,fork` turns a skip for lack of one of these into a failure.
"""

from __future__ import annotations

import gc
import importlib.util
import itertools
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import certifi
import pytest
from hypothesis import settings

from tests.prepared_workers import PreparedImports
from workbench.model import text

# Tests, and processes that they start, use compiled modules, as installed programs do.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# The duration of an example depends on the load of the machine.
settings.register_profile("tests", deadline=None)
settings.load_profile("tests")


def pytest_xdist_auto_num_workers() -> int:
    """Use two processes more than there are CPUs: tests spend half of the time waiting for screens and processes."""
    return (os.cpu_count() or 1) + 2


@pytest.fixture(autouse=True)
def _no_known_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget known secrets: they are global, and secrets of one test must not be masked in another."""
    monkeypatch.setattr(text, "_known_secrets", [])


ROOT = Path(__file__).parent.parent
SHARED = ROOT.parent / "shared"


def are_permissions_enforced() -> bool:
    """Return whether a folder without write permission rejects writes. Root may usually write everywhere."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o500)
        are_enforced = not os.access(folder, os.W_OK)
        Path(folder).chmod(0o700)
        return are_enforced


NEEDS = {
    "a2a": (importlib.util.find_spec("a2a") is not None, "needs the extra a2a: pip install -e '.[a2a]'"),
    "adk": (
        importlib.util.find_spec("google") is not None and importlib.util.find_spec("google.adk") is not None,
        "needs the extra adk: pip install -e '.[adk]'",
    ),
    "bigquery": (
        # Finding a module imports its parent packages, and any of them may be missing.
        all(importlib.util.find_spec(name) is not None for name in ("google", "google.cloud"))
        and importlib.util.find_spec("google.cloud.bigquery") is not None,
        "needs the extra bigquery: pip install -e '.[bigquery]'",
    ),
    "chromium": (
        any(map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))),
        "needs Chromium: apt-get install chromium",
    ),
    "fork": (hasattr(os, "fork") and os.uname().sysname == "Linux", "needs fork workers, which only Linux has"),
    "langchain": (
        importlib.util.find_spec("langchain") is not None and importlib.util.find_spec("langgraph") is not None,
        "needs the extra langchain: pip install -e '.[langchain]'",
    ),
    "fsspec": (
        all(importlib.util.find_spec(name) is not None for name in ("fsspec", "aiohttp")),
        "needs the extra fsspec: pip install -e '.[fsspec]'",
    ),
    "litellm": (
        importlib.util.find_spec("litellm") is not None,
        "needs the extra litellm: pip install -e '.[litellm]'",
    ),
    "mcp": (importlib.util.find_spec("mcp") is not None, "needs the extra mcp: pip install -e '.[mcp]'"),
    "node": (shutil.which("node") is not None, "needs node"),
    "pandas": (
        all(importlib.util.find_spec(name) is not None for name in ("pandas", "pyarrow")),
        "needs the extra pandas: pip install -e '.[pandas]'",
    ),
    "permissions": (are_permissions_enforced(), "needs a user whom permissions bind; root may write everywhere"),
    "ray": (importlib.util.find_spec("ray") is not None, "needs the extra ray: pip install -e '.[ray]'"),
    "vertex": (
        importlib.util.find_spec("agentplatform") is not None,
        "needs the extra vertex: pip install -e '.[vertex]'",
    ),
    "serve": (
        importlib.util.find_spec("textual_serve") is not None,
        "needs the extra serve: pip install -e '.[serve]'",
    ),
    "tmux": (shutil.which("tmux") is not None, "needs tmux"),
}


@pytest.fixture(autouse=True, scope="session")
def _own_user_folders(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Keep the user's folders for state and cache out of tests and of the processes that they start."""
    os.environ["XDG_STATE_HOME"] = str(tmp_path_factory.mktemp("state"))
    os.environ["XDG_CACHE_HOME"] = str(tmp_path_factory.mktemp("cache"))


@pytest.fixture(autouse=True, scope="session")
def _one_trusted_authority(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Trust one certificate authority: to read all of certifi's takes most of the time to make a client for HTTP."""
    first, end, _ = Path(certifi.where()).read_text(encoding="utf-8").partition("-----END CERTIFICATE-----\n")
    bundle = tmp_path_factory.mktemp("authorities") / "one.pem"
    bundle.write_text(first + end, encoding="utf-8")
    os.environ["SSL_CERT_FILE"] = str(bundle)


PREPARED = {
    "a2a": ("a2a",),
    "adk": ("adk",),
    "http": ("aiohttp", "httpcore", "httpcore2", "httpx", "httpx2", "requests", "urllib3"),
    "langchain": ("langchain", "langchain_core.tools", "langgraph.graph"),
    "nothing": (),
}
"""Kinds of agents and modules that are imported before workers are forked, by the name in the marker `prepared`."""
FORKING_FOLDERS = ("cli", "docs", "engine", "simulation", "testing", "tui")
"""Folders whose tests need workers, but do not test how these are started."""


@pytest.fixture(scope="session")
def _prepared_imports() -> Iterator[dict[str, PreparedImports]]:
    prepared = {name: PreparedImports(modules) for name, modules in PREPARED.items()}
    yield prepared
    for each in prepared.values():
        each.close()


@pytest.fixture(autouse=True)
def _prepare_workers(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fork the workers of a test from a process that has imported what the marker `prepared` names.

    Without the marker, or with `prepared(None)`, tests of agents and of the watch start a new interpreter for each.
    """
    marker = request.node.get_closest_marker("prepared")
    folder = request.node.path.relative_to(ROOT / "tests").parts[0]
    name = marker.args[0] if marker is not None else "nothing" if folder in FORKING_FOLDERS else None
    if name is not None and sys.platform == "linux":
        prepared = request.getfixturevalue("_prepared_imports")[name]
        monkeypatch.setattr("workbench.agents.forked_processes.subprocess", prepared)


@pytest.hookimpl(tryfirst=True)
def pytest_collection() -> None:
    """Collect no garbage until the first test: what is imported and collected stays."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Exclude objects that exist before the first test from garbage collection: they live until the last test."""
    gc.enable()
    gc.freeze()
    gc.set_threshold(10_000, 20, 50)


_TEARDOWNS = itertools.count(1)


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown() -> None:
    """Free the screens of tests. They are reference cycles and would otherwise grow to gigabytes.

    What remains, mostly modules imported meanwhile, is excluded as well, or each collection would take half a second.
    """
    if next(_TEARDOWNS) % 100 == 0:
        gc.collect()
        gc.freeze()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    _skip_tests_with_unmet_needs(items)
    processes = getattr(config, "workerinput", {}).get("workercount", 1)
    if processes > 1:
        items[:] = _put_waiting_tests_first(items, processes)


_WAITING = {
    "watch",
    "test_browser_server.py",
    "test_everywhere.py",
    "test_in_a_terminal.py",
    "test_nasty.py",
    "test_ray_hosts.py",
    "test_results_screen.py",
    "test_small_screens.py",
    "test_typing_in_rows.py",
}
"""Folders and files with tests that take ten seconds or more, most of it waiting."""


def _put_waiting_tests_first(items: Sequence[pytest.Item], processes: int) -> list[pytest.Item]:
    """Order the tests so that each process starts with files that mostly wait, and none of these comes last.

    xdist assigns equal shares to the processes, in this order.
    """
    waiting = list(dict.fromkeys(item.path for item in items if _WAITING & set(item.path.parts)))
    others = [item for item in items if item.path not in waiting]
    ordered: list[pytest.Item] = []
    for number in range(processes):
        ordered += [item for item in items if item.path in waiting[number::processes]]
        share = max(len(items) * (number + 1) // processes - len(ordered), 0)
        ordered += others[:share]
        del others[:share]
    return ordered + others


def _skip_tests_with_unmet_needs(items: list[pytest.Item]) -> None:
    required = {name for name in os.environ.get("WORKBENCH_REQUIRE", "").split(",") if name}
    unknown = required - set(NEEDS)
    if unknown:
        raise pytest.UsageError(f"WORKBENCH_REQUIRE names {', '.join(sorted(unknown))}; known: {', '.join(NEEDS)}")
    unmet = {name: reason for name, (present, reason) in NEEDS.items() if not present}
    for item in items:
        for name in {marker.name.removeprefix("needs_") for marker in item.iter_markers()} & unmet.keys():
            if name in required:
                raise pytest.UsageError(f"{item.nodeid} {unmet[name]}, and WORKBENCH_REQUIRE says that {name} is here")
            item.add_marker(pytest.mark.skip(reason=unmet[name]))


@pytest.fixture(scope="session")
def corpus() -> Path:
    """Return the folder of eval sets from other projects; skip the test if it is missing."""
    folder = SHARED / "corpus"
    if not folder.is_dir():
        pytest.skip("the corpus of other projects' eval sets is not beside this checkout")
    return folder


@pytest.fixture(autouse=True)
def _quiet_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the user's keys and settings out of tests."""
    for name in ("GOOGLE_API_KEY", "GEMINI_API_KEY", "GOOGLE_GENAI_USE_VERTEXAI", "WORKBENCH_DEBUG", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
