"""Recognition of ADK agents."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.store.project_folder import ADK_AGENT, ProjectFolder

IsAgent = Callable[..., bool]


@pytest.mark.parametrize(
    "text",
    [
        ADK_AGENT,
        "import google.adk.agents\nroot_agent: object = google.adk.agents.Agent()\n",
        "from google import adk\nroot_agent = adk.Agent()\n",
        "from google.adk import Agent\ndef root_agent():\n    return Agent()\n",
        "from google.adk.agents import Agent\nasync def get_agent_async():\n    return Agent(), None\n",
        "from google.adk.agents import Agent\ndef get_agent():\n    return Agent()\n",
        "def build():\n    from google.adk.agents import Agent\n    return Agent()\nroot_agent = build()\n",
        "try:\n    from google.adk import Agent\n    root_agent = Agent()\nexcept ImportError:\n    pass\n",
        "from google.adk.apps import App\napp = App(name='x', root_agent=None)\n",
        "from google.adk.apps.app import App as AdkApp\napp = AdkApp(name='x')\n",
        "import google.adk.apps as apps\napp = apps.App(name='x')\n",
        "from google.adk.apps import App\ndef make(): return App()\napp = make()\n",
        "match 1:\n    case 1:\n        from google.adk import Agent\n        root_agent = Agent()\n",
        "\ufeff" + ADK_AGENT,
        "# -*- coding: latin-1 -*-\n" + ADK_AGENT,
    ],
)
def test_agents_apps_and_factories_of_google_adk_are_found(is_agent: IsAgent, text: str) -> None:
    assert is_agent(agent=text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "root_agent = 1\n",
        "from fastapi import FastAPI\napp = FastAPI()\n",
        "from fastapi import FastAPI\nfrom google.adk.agents import Agent\napp = FastAPI()\nhelper = Agent()\n",
        "from google.adk.cli.fast_api import get_fast_api_app\napp = get_fast_api_app()\n",
        "from google.adk.agents import Agent\nhelper_agent = Agent()\n",
        "from google.adk.agents import Agent\ndef f():\n    root_agent = Agent()\n",
        "from google.adk.agents import Agent\nprint('root_agent')\n",
        "from google_adk_lookalike import Agent\nroot_agent = Agent()\n",
        "async def get_agent_async(): ...\n",
    ],
)
def test_code_that_only_resembles_an_agent_is_not_recognised(is_agent: IsAgent, text: str) -> None:
    assert not is_agent(agent=text)


def test_a_package_may_import_its_agent_from_any_module(is_agent: IsAgent, folder: ProjectFolder) -> None:
    assert is_agent(init="from .core import root_agent\n", core=ADK_AGENT)

    folder.write("b/__init__.py", "from . import main as agent\n")
    folder.write("b/main.py", ADK_AGENT)
    assert "b" in folder.discover().targets


def test_google_adk_can_be_imported_in_another_module_of_the_agent(is_agent: IsAgent) -> None:
    assert is_agent(
        agent="from a.factory import build\nroot_agent = build()\n",
        factory="from google.adk.agents import Agent\ndef build(): return Agent()\n",
    )


def test_modules_with_circular_imports_are_analysed(is_agent: IsAgent) -> None:
    assert not is_agent(agent="from .other import root_agent\n", other="from .agent import root_agent\n")


def test_code_is_never_run(is_agent: IsAgent, folder: ProjectFolder) -> None:
    assert is_agent(agent=f"open({str(folder.root / 'ran')!r}, 'w')\nimport sys; sys.exit()\n" + ADK_AGENT)

    assert not (folder.root / "ran").exists()


def test_a_broken_agent_stays_an_agent_and_is_a_problem(folder: ProjectFolder) -> None:
    folder.write("a/agent.py", ADK_AGENT + "def broken(:\n")

    project = folder.discover()

    assert "a" in project.targets
    assert project.problems == ("a/agent.py:4: not readable as Python: invalid syntax",)


def test_long_chains_of_branches_and_attributes_are_analysed(is_agent: IsAgent) -> None:
    chain = "if x == 0:\n    y = 0\n" + "".join(f"elif x == {n}:\n    y = {n}\n" for n in range(500))
    dotted = "app = a" + ".b" * 500 + "()\n"

    assert is_agent(agent="x = 1\n" + chain + dotted + ADK_AGENT)


SNIPPETS = st.sampled_from(
    [
        b"from google.adk import Agent\n",
        b"from . import agent\n",
        b"from .agent import *\n",
        b"from ....... import root_agent\n",
        b"import a.b as root_agent\n",
        b"root_agent, app = 1, 2\n",
        b"app = (lambda: 1)()\n",
        b"root_agent: int\n",
        b"match x:\n  case 1:\n    root_agent = 1\n",
        b"for root_agent in x: pass\n",
        b"\xff",
        b"\x00",
        b"(",
        b"'\\d'\n",
    ]
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(agent=st.lists(SNIPPETS).map(b"".join) | st.binary(), init=st.lists(SNIPPETS).map(b"".join))
def test_no_source_breaks_discovery(folder: ProjectFolder, agent: bytes, init: bytes) -> None:
    folder.write("a/agent.py").write_bytes(agent)
    folder.write("a/__init__.py").write_bytes(init)
    folder.write_agent("b")

    assert "b" in folder.discover().targets


@pytest.mark.parametrize("data", [b"agent \x00", b"\xff\xfeagent", b"agent = '\\ud800" + b"(" * 5000])
def test_a_file_that_is_not_python_affects_no_other_agent(folder: ProjectFolder, data: bytes) -> None:
    folder.write("a/agent.py").write_bytes(data)
    folder.write_agent("b")

    project = folder.discover()

    assert list(project.targets) == ["b"]
    assert len(project.problems) == 1
    assert project.problems[0].startswith("a/agent.py:")
