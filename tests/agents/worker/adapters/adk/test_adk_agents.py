"""ADK agents are found in every layout; if one is missing, the message says what was searched and where."""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.agents.worker.adapters.adk.conftest import Agents
from tests.agents.worker.adapters.adk.prelude import PRELUDE
from workbench.agents.worker.adapters import adk
from workbench.agents.worker.adapters.adk.adk_agents import find_agent, get_agent_type, tool_name
from workbench.agents.worker.adapters.base import LoadError

pytestmark = pytest.mark.needs_adk

ROOT = Path(__file__).parents[5]
HELLO = PRELUDE + '\nroot_agent = llm_agent("root", "hello")\n'

LAYOUTS = {
    "a package that imports its agent module": {"__init__.py": "from . import agent", "agent.py": HELLO},
    "a package that imports nothing": {"__init__.py": "", "agent.py": HELLO},
    "a package that exposes the agent itself": {"__init__.py": "from .agent import root_agent", "agent.py": HELLO},
    "a package without an agent module": {"__init__.py": "from .main import root_agent", "main.py": HELLO},
    "a package whose agent module is a package": {"__init__.py": "", "agent/__init__.py": HELLO},
    "a folder with nothing but agent.py": {"agent.py": HELLO},
    "relative imports": {
        "__init__.py": "from . import agent",
        "agent.py": "from .parts.made import root_agent",
        "parts/__init__.py": "",
        "parts/made.py": HELLO,
    },
    "relative imports in a folder without __init__.py": {"agent.py": "from .made import root_agent", "made.py": HELLO},
    "absolute imports of its own package": {
        "__init__.py": "from . import agent",
        "agent.py": "from my_agent.made import root_agent",
        "made.py": HELLO,
    },
    "an app": {"agent.py": HELLO + 'app = App(name="named", root_agent=root_agent)\ndel root_agent'},
    "a web application beside the agent": {"agent.py": HELLO + "app = object()"},
    "root_agent as a function": {"agent.py": HELLO + "made = root_agent\ndef root_agent():\n    return made"},
    "get_agent": {"agent.py": HELLO + "made = root_agent\ndel root_agent\ndef get_agent():\n    return made"},
    "get_agent_async": {
        "agent.py": HELLO + "made = root_agent\ndel root_agent\nasync def get_agent_async():\n    return made, None"
    },
    "get_agent_async that gives the agent alone": {
        "agent.py": HELLO + "made = root_agent\ndel root_agent\nasync def get_agent_async():\n    return made"
    },
}


@pytest.mark.parametrize("files", LAYOUTS.values(), ids=LAYOUTS.keys())
async def test_the_agent_is_found_in_every_layout(agents: Agents, files: dict[str, str]) -> None:
    agents.write("my_agent", files)

    assert (await agents.talk("my_agent", "hi")).text == "hello"


async def test_an_app_in_the_agent_module_takes_precedence_over_the_packages_agent(agents: Agents) -> None:
    app = 'app = App(name="named", root_agent=llm_agent("other", "from the app"))'
    agents.write("my_agent", {"__init__.py": "from .agent import root_agent", "agent.py": HELLO + app})

    assert (await agents.talk("my_agent", "hi")).text == "from the app"


async def test_an_agent_inside_a_package_may_import_from_the_parent_package(agents: Agents) -> None:
    agents.write("", {"__init__.py": "", "common.py": "WORD = 'shared'"})
    code = "from ..common import WORD\nfrom agents.common import WORD as SAME\nassert SAME is WORD\n" + HELLO
    agents.write("my_agent", {"__init__.py": "from . import agent", "agent.py": code})

    assert (await agents.talk("my_agent", "hi")).text == "hello"


@pytest.mark.parametrize("name", ["calendar", "json", "my.agent", "my-agent"])
async def test_the_folder_of_an_agent_may_have_any_name(agents: Agents, name: str) -> None:
    agents.write(
        name, {"__init__.py": "from . import agent", "agent.py": "from .made import root_agent", "made.py": HELLO}
    )

    assert (await agents.talk(name, "hi")).text == "hello"


async def test_a_workflow_is_an_agent(agents: Agents) -> None:
    conversation = await agents.talk_to(
        """
        from google.adk.workflow import Workflow

        first, second = llm_agent("first", "draft"), llm_agent("second", "final")
        root_agent = Workflow(name="root", edges=[("START", first), (first, second)])
        """,
        "hi",
    )

    assert conversation.text == "final"


async def test_a_factory_makes_one_agent_per_session_and_its_exit_stack_closes_with_it(agents: Agents) -> None:
    agents.write_agent(
        "factory",
        """
        from contextlib import AsyncExitStack

        LOG = []

        async def get_agent_async():
            stack = AsyncExitStack()
            number = len(LOG)
            LOG.append(f"open {number}")
            stack.callback(lambda: LOG.append(f"close {number}"))
            return llm_agent("root", f"hello {number}"), stack
        """,
    )
    adapter = agents.adapter("factory")
    adapter.load()

    from factory.agent import LOG

    assert LOG == []
    first = await adapter.open({}, lambda span: None)
    second = await adapter.open({}, lambda span: None)
    await second.close()
    await first.close()
    assert LOG == ["open 0", "open 1", "close 1", "close 0"]


NOT_FOUND = {
    "no folder": (None, "no agent folder .*missing"),
    "an empty folder": ({"README.md": ""}, "expected root_agent.yaml, or agent.py or __init__.py with `root_agent`"),
    "a module without an agent": ({"agent.py": "x = 1"}, "looked in agent.py for `root_agent`"),
    "an agent that is None": ({"agent.py": "root_agent = None"}, "; root_agent is None"),
    "a module with a misspelt agent": (
        {"agent.py": HELLO.replace("root_agent", "root_agnet")},
        "did you mean 'root_agnet'",
    ),
    "a package without an agent": ({"__init__.py": "", "agent.py": ""}, "looked in __init__.py and agent.py"),
    "a root_agent of another kind": ({"agent.py": "root_agent = 'me'"}, "root_agent is a value of type str"),
    "a coroutine": (
        {"agent.py": "async def make(): pass\nroot_agent = make()"},
        "expected an agent of google.adk: bind the function itself, without calling it",
    ),
    "an app called root_agent": (
        {"agent.py": HELLO + 'root_agent = App(name="a", root_agent=root_agent)'},
        "an App must be named `app`",
    ),
}


@pytest.mark.parametrize(("files", "message"), NOT_FOUND.values(), ids=NOT_FOUND.keys())
def test_missing_agents_are_reported(agents: Agents, files: dict[str, str] | None, message: str) -> None:
    if files is not None:
        agents.write("missing", files)

    with pytest.raises(LoadError, match=message):
        agents.adapter("missing").load()


async def test_a_factory_that_returns_no_agent_is_reported(agents: Agents) -> None:
    agents.write_agent("wrong", "def get_agent():\n    return {'not': 'an agent'}")

    with pytest.raises(LoadError, match=r"agent\.get_agent\(\) gave a value of type dict"):
        await agents.adapter("wrong").open({}, lambda span: None)


def test_an_import_error_in_the_agent_is_raised_unchanged(agents: Agents) -> None:
    agents.write("broken", {"agent.py": "import not_installed_anywhere"})

    with pytest.raises(ModuleNotFoundError, match=r"No module named 'not_installed_anywhere'$"):
        agents.adapter("broken").load()


def test_an_import_of_a_sibling_module_by_its_bare_name_is_explained(agents: Agents) -> None:
    agents.write("my_agent", {"agent.py": "from tools_beside import x", "tools_beside.py": "x = 1"})

    with pytest.raises(ModuleNotFoundError, match=r"import \.tools_beside or my_agent\.tools_beside"):
        agents.adapter("my_agent").load()


def test_the_location_may_be_relative_to_the_folder_or_its_parent(agents: Agents) -> None:
    agents.write("my_agent", {"agent.py": HELLO})
    for location, path in [
        ("my_agent", agents.folder),
        ("agents/my_agent", agents.folder.parent),
        ("agents/my_agent", agents.folder),
        (str(agents.folder / "my_agent"), agents.folder.parent),
    ]:
        adapter = adk.Adapter({"kind": "adk", "name": "x", "location": location, "path": str(path), "env_file": None})
        assert adapter.import_roots()[0] == str(agents.folder)


def test_the_nearest_env_file_is_loaded_unless_one_is_configured(agents: Agents, tmp_path: Path) -> None:
    agents.write("my_agent", {"agent.py": HELLO})
    (tmp_path / ".env").write_text("A=1")
    assert agents.adapter("my_agent").env_files() == [str(tmp_path / ".env")]

    (agents.folder / "my_agent" / ".env").write_text("A=2")
    assert agents.adapter("my_agent").env_files() == [str(agents.folder / "my_agent" / ".env")]

    target = {"kind": "adk", "name": "x", "location": "my_agent", "path": str(agents.folder), "env_file": "/other/.env"}
    assert adk.Adapter(target).env_files() == ["/other/.env"]


def test_env_files_can_be_switched_off_as_in_adk(agents: Agents, monkeypatch: pytest.MonkeyPatch) -> None:
    agents.write("my_agent", {"agent.py": HELLO, ".env": "A=1"})
    monkeypatch.setenv("ADK_DISABLE_LOAD_DOTENV", "1")

    assert agents.adapter("my_agent").env_files() == []


def _run_in_new_process(code: str, *, folder: Path) -> str:
    """Run code in a new process, as imports in this one cannot be undone, and return its output."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(folder)])}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


PREPARE = """
import asyncio, gc, importlib, os, sys, threading
from workbench.agents.worker.adapters import adk

target = {"kind": "adk", "name": "x", "location": "my_agent", "path": sys.path[2], "env_file": None}
adapter = adk.Adapter(target)
for module in adapter.preload:
    importlib.import_module(module)
"""


def test_the_warm_up_imports_everything_and_leaves_nothing_open(agents: Agents) -> None:
    tool = 'def f(x: int) -> dict:\n    return {}\nroot_agent = llm_agent("root", [call("f", x=1)], "hi", tools=[f])\n'
    agents.write("my_agent", {"agent.py": PRELUDE + tool})

    output = _run_in_new_process(
        PREPARE
        + """
adapter.run_warmup()
files = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
adapter.run_warmup()
gc.collect()
print(threading.active_count(), (len(os.listdir("/proc/self/fd")) if files else 0) - files)
loops = [thing for thing in gc.get_objects() if isinstance(thing, asyncio.AbstractEventLoop) and not thing.is_closed()]
print(len(loops))
adapter.load()

async def run():
    before = set(sys.modules)
    session = await adapter.open({}, lambda span: None)
    await session.turn({"role": "user", "parts": [{"text": "hi"}]}, 0)
    await session.close()
    return sorted(set(sys.modules) - before)

print(asyncio.run(run()))
print([name for name in sys.modules if name.startswith("google.adk.evaluation")])
""",
        folder=agents.folder,
    )

    assert output.splitlines() == ["1 0", "0", "[]", "[]"]


def test_the_first_turn_of_a_new_process_imports_few_modules(agents: Agents) -> None:
    code = """
class Echo(BaseAgent):
    async def _run_async_impl(self, ctx):
        yield Event(author=self.name, invocation_id=ctx.invocation_id, content=ctx.user_content)

root_agent = Echo(name="echo")
"""
    agents.write("my_agent", {"agent.py": PRELUDE + code})

    output = _run_in_new_process(
        PREPARE
        + """
adapter.load()

async def run():
    session = await adapter.open({}, lambda span: None)
    before = set(sys.modules)
    await session.turn({"role": "user", "parts": [{"text": "hi"}]}, 0)
    return [name for name in sys.modules if name not in before]

print(len(asyncio.run(run())) < 60)
""",
        folder=agents.folder,
    )

    assert output == "True\n"


def test_experimental_warnings_are_hidden_only_if_the_framework_issues_them(agents: Agents) -> None:
    code = """
import warnings

warnings.warn("[EXPERIMENTAL] mine", UserWarning)
"""
    agents.write("my_agent", {"agent.py": HELLO + code})

    output = _run_in_new_process(
        "import sys; sys.stderr = sys.stdout\n"
        + PREPARE
        + """
import warnings
warnings.warn_explicit("[EXPERIMENTAL] theirs", UserWarning, "x.py", 1, module="google.adk.runners")
adapter.load()
""",
        folder=agents.folder,
    )

    assert "mine" in output
    assert "theirs" not in output


def test_an_interpreter_without_google_adk_is_reported(agents: Agents, monkeypatch: pytest.MonkeyPatch) -> None:
    agents.write("my_agent", {"agent.py": HELLO})
    for name in [name for name in sys.modules if name == "google.adk" or name.startswith("google.adk.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "google.adk", None)

    with pytest.raises(LoadError, match=r"google-adk \S+ is installed for .*, but google.adk\S* is missing"):
        agents.adapter("my_agent").load()

    monkeypatch.setattr("importlib.metadata.version", _raise_not_found)
    with pytest.raises(LoadError, match="google-adk is not installed for this interpreter"):
        agents.adapter("my_agent").load()


def test_a_google_adk_that_is_too_old_is_reported_with_its_version(
    agents: Agents, monkeypatch: pytest.MonkeyPatch
) -> None:
    agents.write("my_agent", {"agent.py": HELLO})
    monkeypatch.setattr("importlib.metadata.version", lambda _: "1.17.2")

    with pytest.raises(LoadError, match=r"google-adk 1\.17\.2 is too old, expected 1\.18 or newer"):
        agents.adapter("my_agent").load()


def test_the_agent_type_of_adk_1_is_base_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    from google.adk.agents import BaseAgent

    monkeypatch.setitem(sys.modules, "google.adk.workflow", None)  # introduced in 2.0

    assert get_agent_type() is BaseAgent


def _raise_not_found(name: str) -> str:
    raise importlib.metadata.PackageNotFoundError(name)


def test_an_agent_config_is_loaded_with_its_tools(agents: Agents) -> None:
    folder = agents.write(
        "configured_desk",
        {
            "root_agent.yaml": "name: desk\nmodel: gemini-2.5-flash\ninstruction: Look.\n"
            "tools:\n  - name: configured_desk.tools.look\n",
            "tools.py": "def look(city: str) -> str:\n    return city\n",
        },
    )

    adapter = agents.adapter("configured_desk")  # its roots are importable
    source = find_agent(str(folder))

    assert adapter.target["location"] == "configured_desk"
    assert source.place == str(folder / "root_agent.yaml")
    assert (source.agent.name, [tool_name(tool) for tool in source.agent.tools]) == ("desk", ["look"])


def test_an_agent_config_that_adk_cannot_build_is_reported_with_its_file(agents: Agents) -> None:
    folder = agents.write("broken_desk", {"root_agent.yaml": "name: [1"})

    with pytest.raises(LoadError, match=r"broken_desk/root_agent.yaml: google-adk cannot build the agent: "):
        find_agent(str(folder))
