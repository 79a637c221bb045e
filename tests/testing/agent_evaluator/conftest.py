"""A real ADK agent with a scripted model, and eval sets for it, in an importable folder."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from workbench.testing.shared_resources import shared_workspaces

AGENT = """
from google.adk.agents import LlmAgent
from google.adk.models import BaseLlm, LlmResponse
from google.genai import types

from .tools import set_device_info


class Scripted(BaseLlm):
    model: str = "scripted"
    device: str = "device_2"

    async def generate_content_async(self, llm_request, stream=False):
        last = llm_request.contents[-1].parts[-1]
        if last.function_response is not None:
            said = types.Part(text=f"I have set the {self.device} status to off.")
        elif "raise" in last.text:
            raise ValueError("kaboom")
        else:
            device = "device_9" if "wrong" in last.text else self.device
            args = {"location": "Bedroom", "device_id": device, "status": "OFF"}
            said = types.Part(function_call=types.FunctionCall(name="set_device_info", args=args))
        yield LlmResponse(content=types.Content(role="model", parts=[said]))


guest = LlmAgent(name="guest", model=Scripted(device="device_3"), tools=[set_device_info])
root_agent = LlmAgent(name="home", model=Scripted(), tools=[set_device_info], sub_agents=[guest])
"""

TOOLS = """
def set_device_info(location: str, device_id: str, status: str) -> dict:
    return {"done": True}
"""


@dataclass(frozen=True)
class AgentProject:
    """A project folder that is the working directory and on `sys.path`."""

    root: Path

    def write(self, name: str, content: Any) -> Path:
        """Write a file: text unchanged, other values as JSON."""
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        text = textwrap.dedent(content) if isinstance(content, str) else json.dumps(content)
        path.write_text(text, encoding="utf-8")
        return path

    def add_set(self, name: str, **prompts: str) -> str:
        """Add an eval set with a case for each prompt, all expecting device_2 to be switched off; return its name."""
        self.write(name, {"eval_set_id": "light", "eval_cases": [case(*item) for item in prompts.items()]})
        return name


def case(eval_id: str, prompt: str) -> dict[str, Any]:
    """Build a case that expects device_2 to be switched off."""
    args = {"location": "Bedroom", "device_id": "device_2", "status": "OFF"}
    expected = {
        "user_content": {"role": "user", "parts": [{"text": prompt}]},
        "final_response": {"role": "model", "parts": [{"text": "I have set the device_2 status to off."}]},
        "intermediate_data": {"tool_uses": [{"name": "set_device_info", "args": args}]},
    }
    return {"eval_id": eval_id, "conversation": [expected]}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[AgentProject]:
    """Create a package `home_automation_agent` with an ADK agent."""
    agent_project = AgentProject(tmp_path)
    agent_project.write("pyproject.toml", "")
    agent_project.write("home_automation_agent/__init__.py", "from . import agent")
    agent_project.write("home_automation_agent/agent.py", AGENT)
    agent_project.write("home_automation_agent/tools.py", TOOLS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    yield agent_project
    shared_workspaces.close()
