"""What zygotes import before sessions are forked from them."""

from __future__ import annotations

import os
from typing import Any

import pytest

from workbench.model.target import AgentKind

AGENT = """
    import os
    from pathlib import Path

    from google.adk.agents import BaseAgent
    from google.adk.events import Event
    from google.genai import types


    class Ancestors(BaseAgent):
        async def _run_async_impl(self, ctx):
            found = [os.getppid()]
            while found[-1] > 1:
                found.append(int(Path(f"/proc/{found[-1]}/stat").read_text().rpartition(")")[2].split()[1]))
            said = types.Content(role="model", parts=[types.Part(text=" ".join(map(str, found)))])
            yield Event(author=self.name, content=said)


    root_agent = Ancestors(name="ancestors")
"""


@pytest.mark.needs_adk
@pytest.mark.needs_fork
async def test_a_session_after_a_single_one_finds_the_framework_imported(bench: Any) -> None:
    bench.write("home/__init__.py", "from . import agent\n")
    bench.write("home/agent.py", AGENT)
    host = bench.host(kind=AgentKind.ADK, location="home", mode="fork")
    host.prepare(cases=1)

    talks = [await bench.talk(host, "hello") for _ in range(2)]

    first, second = ([int(pid) for pid in talk.responses[0].split()] for talk in talks)
    root = first[first.index(os.getpid()) - 1]
    assert first[0] != root  # it is below a zygote with the framework
    assert first[0] in second
