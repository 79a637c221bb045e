"""Case contents in the backend: read once, and reread only after a change."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from workbench.tui.backend.backend import Backend
from workbench.tui.state.browser_list import CaseContent, ListedSet


@pytest.fixture
def backend(make_project: Callable[..., Path], make: Any) -> Any:
    cases = [{"eval_id": name, "conversation": [make.turn(f"Do {name}", "x", ("ping", {}))]} for name in ("a", "b")]
    broken = {"eval_id": "odd", "conversation": "Lamp"}
    backend = Backend(make_project(things=[*cases, broken], empty=[]))
    yield backend
    backend.close()


async def read(backend: Backend, name: str = "things.evalset.json") -> list[CaseContent]:
    project = await backend.project.open()
    listed = next(listed for listed in project.sets if listed.relative == name)
    listed = await backend.project.list_set(listed)
    assert isinstance(listed, ListedSet)
    return [content async for contents in backend.contents.read(listed) for content in contents]


async def test_a_set_is_read_once_and_its_broken_cases_by_their_text(backend: Backend) -> None:
    found = {content.key.eval_id: content for content in await read(backend)}

    assert (found["a"].text, found["a"].tools) == ("a\ndo a\nping", ("ping",))
    assert found["a"].hashes != found["b"].hashes
    assert "lamp" in found["odd"].text
    assert found["odd"].hashes is None
    assert await read(backend) == []
    assert await read(backend, "empty.evalset.json") == []


async def test_an_edit_changes_the_hashes_of_its_case_alone(backend: Backend) -> None:
    before = {content.key.eval_id: content for content in await read(backend)}
    place = ("conversation", 0, "user_content", "parts", 0, "text")

    await backend.edit(
        lambda workspace: workspace.documents.edit(
            "things.evalset.json", lambda document: document.set_value(place, "New", case=0), label="change"
        )
    )
    after = {content.key.eval_id: content for content in await read(backend)}

    assert after["a"].text == "a\nnew\nping"
    assert after["a"].hashes != before["a"].hashes
    assert after["b"] is before["b"]


async def test_other_criteria_change_every_hash_of_what_is_judged_by_them(backend: Backend, tmp_path: Path) -> None:
    before = {content.key.eval_id: content.hashes for content in await read(backend)}
    (tmp_path / "test_config.json").write_text('{"criteria": {"exact_match": 1.0}}', encoding="utf-8")

    for content in await read(backend):
        if content.hashes is not None:
            known = before[content.key.eval_id]
            assert known is not None
            assert content.hashes[0] == known[0]
            assert content.hashes[1] != known[1]
            assert content.key.eval_id in ("a", "b")


async def test_verdicts_on_simulated_tools_are_stale_only_once_these_answer_otherwise(
    make_project: Callable[..., Path], open_app: Any, make: Any
) -> None:
    def simulated(answer: str) -> str:
        injection = {"injected_response": {"state": answer}}
        return json.dumps({"tool_simulation_configs": [{"tool_name": "switch", "injection_configs": [injection]}]})

    project = make_project(
        agent="def switch():\n    return {}\ndef answer(prompt):\n    return str(switch())\n",
        criteria={"exact_match": 0.0},
        lamps=[{"eval_id": "on", "conversation": [make.turn("Turn it on", "on")]}],
    )
    settings = project / "workbench.toml"
    settings.write_text(settings.read_text() + 'simulate_tools = "tools.json"\n')
    (project / "tools.json").write_text(simulated("on"))
    async with open_app(project) as screen:
        await screen.until("lamps", "on")
        await screen.press("R")
        await screen.until("✓ 1/1", "finished  ")
        assert "stale" not in screen.text

        (project / "tools.json").write_text(simulated("off"))
        await screen.press("f5")
        await screen.until("✓ stale")
