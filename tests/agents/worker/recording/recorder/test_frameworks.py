"""Records of agents that use a framework, and of custom metrics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from workbench.agents.agent_host import AgentError, CustomScoreRequest
from workbench.model.evalset import Content, Invocation

AGENT = """
from pathlib import Path
from google.adk.agents import LlmAgent
from google.adk.models import BaseLlm, LlmResponse
from google.genai import types
from .tools import price, refund

class Scripted(BaseLlm):
    model: str = "scripted"
    async def generate_content_async(self, llm_request, stream=False):
        called = any(part.function_response for content in llm_request.contents for part in content.parts)
        call = types.Part(function_call=types.FunctionCall(name="price", args={"item": "a"}))
        part = types.Part(text="It costs 1.") if called else call
        yield LlmResponse(content=types.Content(role="model", parts=[part]))

INSTRUCTION = (Path(__file__).resolve().parent / "prompt.txt").read_text()
root_agent = LlmAgent(name="shop", model=Scripted(), instruction=INSTRUCTION, tools=[price, refund])
"""

TOOLS = '''
import json, pathlib
HERE = pathlib.Path(__file__).parent
def price(item: str) -> dict:
    """The price of an item."""
    return {"price": json.loads((HERE / "data.json").read_text()).get(item)}
async def refund(item: str) -> dict:
    """Give money back."""
    return {"refund": item}
'''


@pytest.fixture
def write_shop(bench: Any) -> Callable[..., None]:
    def write(agent: str = AGENT, tools: str = TOOLS) -> None:
        bench.write("shop/__init__.py", "from . import agent\n")
        bench.write("shop/agent.py", agent)
        bench.write("shop/tools.py", tools)
        bench.write("shop/data.json", '{"a": 1}')
        bench.write("shop/prompt.txt", "You sell things.")

    write()
    return write


@pytest.mark.needs_adk
@pytest.mark.needs_fork
async def test_an_adk_agent_depends_on_its_tools_its_prompt_and_its_data(
    bench: Any, run: Any, write_shop: Callable[..., None]
) -> None:
    host = bench.host(mode="fork", kind="adk", location="shop")
    host.prepare(cases=4)

    records = [await run(host=host) for _ in range(3)]

    for record in records:
        assert record.responses == ["It costs 1."], record.error
        assert record.rows("rest").keys() == {"shop/__init__.py", "shop/agent.py", "shop/tools.py"}
        assert record.rows("block").keys() == {
            "shop/agent.py::Scripted.generate_content_async", "shop/tools.py::price",
        }  # fmt: skip
        assert {key for key in record.rows("file") if key.startswith("shop/")} == {"shop/data.json", "shop/prompt.txt"}
        assert record.rows("probe")["shop/.env"] == "absent"
        assert not record.rows("opaque") and not record.rows("folder") and record.dependencies.tainted is None
    assert records[1].dependencies.rows == records[2].dependencies.rows


@pytest.mark.needs_adk
@pytest.mark.needs_fork
async def test_an_edit_of_an_adk_agent_changes_only_the_affected_rows(
    bench: Any, run: Any, write_shop: Callable[..., None]
) -> None:
    host = bench.host(mode="fork", kind="adk", location="shop")
    host.prepare(cases=8)

    async def find_changed_rows(old: str, new: str) -> set[tuple[str, str]]:
        assert old in TOOLS
        before = {row for record in [await run(host=host)] for row in record.dependencies.rows}
        write_shop(tools=TOOLS.replace(old, new))
        host.renew()
        after = {row for record in [await run(host=host)] for row in record.dependencies.rows}
        write_shop()
        host.renew()
        return {(row.kind, row.key.rpartition("/")[2]) for row in before ^ after if row.kind not in ("import",)}

    await run(host=host)  # the first one imports more than the others
    assert await find_changed_rows("import json", "# no news\nimport json") == set()
    assert await find_changed_rows('{"refund": item}', '{"refunds": item}') == set()
    assert await find_changed_rows("Give money back.", "Keep it.") == {("name", "tools.py::refund")}
    assert await find_changed_rows('{"price":', '{"cost":') == {("block", "tools.py::price")}


@pytest.mark.needs_adk
@pytest.mark.needs_fork
async def test_the_absence_of_a_nearer_env_file_is_recorded(
    bench: Any, run: Any, write_shop: Callable[..., None]
) -> None:
    bench.write(".env", "WB_KEY=far")
    record = await run(kind="adk", location="shop")

    assert record.rows("env_files") == {".env": "-"}
    assert record.rows("probe")["shop/.env"] == "absent"
    assert record.rows("probe")[".env"] == "file"


async def _score(bench: Any, function: str, **host: Any) -> Any:
    content = Content.of_text("p", role="user")
    turn = Invocation(user_content=content, final_response=Content.of_text("r", role="model"))
    request = CustomScoreRequest(metric="mine", function=function, actual=[turn])
    return await bench.host(**host).score(request)


async def test_dependencies_of_a_custom_metric_are_reported(bench: Any, way: dict[str, Any]) -> None:
    bench.write("words.txt", "r")
    bench.write(
        "metrics.py",
        "def helper(): return open('words.txt').read()\ndef unused(): pass\n"
        "def f(instance): return float(instance['response'] == helper())\n",
    )

    answer = await _score(bench, "metrics.f", **way)

    dependencies = answer.dependencies
    assert answer.score == 1.0 and dependencies.complete
    keys = {(row.kind, row.key.removeprefix(f"{bench.folder}/")) for row in dependencies.rows}
    assert {
        ("rest", "metrics.py"),
        ("name", "metrics.py::helper()"),
        ("block", "metrics.py::f"),
        ("block", "metrics.py::helper"),
    } < keys
    assert ("file", "words.txt") in keys and ("block", "metrics.py::unused") not in keys


async def test_dependencies_of_a_failed_custom_metric_are_reported(bench: Any, way: dict[str, Any]) -> None:
    bench.write("metrics.py", "def f(instance): raise ValueError('no')\n")

    with pytest.raises(AgentError) as raised:
        await _score(bench, "metrics.f", **way)

    dependencies = raised.value.dependencies
    assert dependencies is not None and dependencies.complete
    assert {row.key.removeprefix(f"{bench.folder}/") for row in dependencies.rows if row.kind == "block"} == {
        "metrics.py::f"
    }
