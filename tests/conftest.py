"""What all tests share: why a test is skipped, and when that is not allowed.

`WORKBENCH_REQUIRE=tmux,adk,fork` turns a skip for want of one of these into a failure.
"""

from __future__ import annotations

import gc
import importlib.util
import itertools
import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import settings

from workbench.model import text

# Processes that tests start find compiled modules, as those of installed programs do.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# How long an example takes says how busy the machine is.
settings.register_profile("tests", deadline=None)
settings.load_profile("tests")


def pytest_xdist_auto_num_workers() -> int:
    """One process more than there are CPUs: a quarter of the time tests wait for screens and processes."""
    return (os.cpu_count() or 1) + 1


@pytest.fixture(autouse=True)
def _no_known_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Secrets are known to the whole process: those of one test must not be masked in another."""
    monkeypatch.setattr(text, "_known_secrets", [])


ROOT = Path(__file__).parent.parent
SHARED = ROOT.parent / "shared"


def permissions_bind() -> bool:
    """Whether a folder without write permission cannot be written: root is bound by none, unless told otherwise."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o500)
        bound = not os.access(folder, os.W_OK)
        Path(folder).chmod(0o700)
        return bound


NEEDS = {
    "a2a": (importlib.util.find_spec("a2a") is not None, "needs the extra a2a: pip install -e '.[a2a]'"),
    "adk": (
        importlib.util.find_spec("google") is not None and importlib.util.find_spec("google.adk") is not None,
        "needs the extra adk: pip install -e '.[adk]'",
    ),
    "bigquery": (
        # Finding a module imports the packages around it, each of which may be the one that is not there.
        all(importlib.util.find_spec(name) is not None for name in ("google", "google.cloud"))
        and importlib.util.find_spec("google.cloud.bigquery") is not None,
        "needs the extra bigquery: pip install -e '.[bigquery]'",
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
    "node": (shutil.which("node") is not None, "needs node"),
    "pandas": (
        all(importlib.util.find_spec(name) is not None for name in ("pandas", "pyarrow")),
        "needs the extra pandas: pip install -e '.[pandas]'",
    ),
    "permissions": (permissions_bind(), "needs a user whom permissions bind; root may write everywhere"),
    "vertex": (
        importlib.util.find_spec("agentplatform") is not None,
        "needs the extra vertex: pip install -e '.[vertex]'",
    ),
    "tmux": (shutil.which("tmux") is not None, "needs tmux"),
}


@pytest.fixture(autouse=True, scope="session")
def _own_state_folder(tmp_path_factory: pytest.TempPathFactory) -> None:
    """No test finds or leaves a layout in the folder of whoever runs it, in processes of its own neither."""
    os.environ["XDG_STATE_HOME"] = str(tmp_path_factory.mktemp("state"))


def pytest_collection_finish() -> None:
    """What is here before the first test stays until the last: searching it for garbage again and again is in vain."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 50)


_SINCE_COLLECTED = itertools.count(1)


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown() -> None:
    """Free the screens of tests, which are cycles: left to the collector they come to gigabytes."""
    if next(_SINCE_COLLECTED) % 100 == 0:
        gc.collect()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    _skip_what_lacks_something(items)
    processes = getattr(config, "workerinput", {}).get("workercount", 1)
    if processes > 1:
        items[:] = _waiting_first(items, processes)


def _waiting_first(items: Sequence[pytest.Item], processes: int) -> list[pytest.Item]:
    """Put files of tests that mostly wait first for each process: xdist gives each an equal part, in this order."""
    waiting = list(dict.fromkeys(item.path for item in items if "watch" in item.path.parts))
    others = [item for item in items if item.path not in waiting]
    ordered: list[pytest.Item] = []
    for number in range(processes):
        ordered += [item for item in items if item.path in waiting[number::processes]]
        share = max(len(items) * (number + 1) // processes - len(ordered), 0)
        ordered += others[:share]
        del others[:share]
    return ordered + others


def _skip_what_lacks_something(items: list[pytest.Item]) -> None:
    required = {name for name in os.environ.get("WORKBENCH_REQUIRE", "").split(",") if name}
    unknown = required - set(NEEDS)
    if unknown:
        raise pytest.UsageError(f"WORKBENCH_REQUIRE names {', '.join(sorted(unknown))}; known: {', '.join(NEEDS)}")
    for item in items:
        for name, (present, reason) in NEEDS.items():
            if item.get_closest_marker(f"needs_{name}") is None or present:
                continue
            if name in required:
                raise pytest.UsageError(f"{item.nodeid} {reason}, and WORKBENCH_REQUIRE says that {name} is here")
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="session")
def corpus() -> Path:
    """The eval sets that others wrote, where they are at hand."""
    folder = SHARED / "corpus"
    if not folder.is_dir():
        pytest.skip("the corpus of other projects' eval sets is not beside this checkout")
    return folder


@pytest.fixture(autouse=True)
def _quiet_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test depends on the keys or settings of whoever runs it."""
    for name in ("GOOGLE_API_KEY", "GEMINI_API_KEY", "GOOGLE_GENAI_USE_VERTEXAI", "WORKBENCH_DEBUG", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
