"""Case contents in the backend: read once, and reread only after a change."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from workbench.cli.main import main as run_command
from workbench.model.identity import CaseKey
from workbench.tui.backend.backend import Backend
from workbench.tui.state.browser_list import CaseContent, ListedSet


@pytest.fixture
def backend(make_project: Callable[..., Path], make: Any) -> Any:
    cases = [{"eval_id": name, "conversation": [make.turn(f"Do {name}", "x", ("ping", {}))]} for name in ("a", "b")]
    broken = {"eval_id": "odd", "conversation": "Lamp"}
    backend = Backend(make_project(things=[*cases, broken], empty=[]))
    yield backend
    backend.close()


async def list_set(backend: Backend, name: str) -> ListedSet:
    project = await backend.project.open()
    return await backend.project.list_set(next(each for each in project.sets if each.relative == name))


async def read_contents(backend: Backend, name: str = "things.evalset.json") -> list[CaseContent]:
    listed_set = await list_set(backend, name)
    return [content async for contents in backend.contents.read(listed_set) for content in contents]


async def test_a_set_is_read_once_and_broken_cases_keep_their_text(backend: Backend) -> None:
    contents = {content.key.eval_id: content for content in await read_contents(backend)}

    assert (contents["a"].text, contents["a"].tools) == ("a\ndo a\nping", ("ping",))
    assert contents["a"].hashes != contents["b"].hashes
    assert "lamp" in contents["odd"].text
    assert contents["odd"].hashes is None
    assert await read_contents(backend) == []
    assert await read_contents(backend, "empty.evalset.json") == []


async def test_a_set_with_broken_json_around_its_cases_is_broken_also_without_a_case(
    backend: Backend, tmp_path: Path
) -> None:
    for name, count in (("empty", 0), ("things", 3)):
        file = tmp_path / f"{name}.evalset.json"
        assert (await list_set(backend, file.name)).state == ""
        valid = file.read_text()
        file.write_text(valid.replace(f'"{name}"', name))

        listed = await list_set(backend, file.name)
        assert (listed.state, len(listed.cases or ())) == ("broken", count)
        assert listed.problem == f"{file}:2:18: found '{name}', expected a value"
        assert await backend.project.list_set(listed) is listed
        file.write_text(valid)
        assert (await backend.project.list_set(listed)).state == ""


async def test_an_edit_changes_only_the_hashes_of_its_case(backend: Backend) -> None:
    before = {content.key.eval_id: content for content in await read_contents(backend)}
    place = ("conversation", 0, "user_content", "parts", 0, "text")

    await backend.edit(
        lambda workspace: workspace.documents.edit(
            "things.evalset.json", lambda document: document.set_value(place, "New", case=0), label="change"
        )
    )
    after = {content.key.eval_id: content for content in await read_contents(backend)}

    assert after["a"].text == "a\nnew\nping"
    assert after["a"].hashes != before["a"].hashes
    assert after["b"] is before["b"]


async def test_an_edited_case_is_known_as_changed_when_its_set_is_deleted(backend: Backend, tmp_path: Path) -> None:
    name, place = "things.evalset.json", ("conversation", 0, "user_content", "parts", 0, "text")
    before = {content.key.eval_id: content.hashes for content in await read_contents(backend)}
    await backend.edit(
        lambda workspace: workspace.documents.edit(
            name, lambda document: document.set_value(place, "New", case=0), label="change"
        )
    )
    (tmp_path / name).unlink()

    await backend.project.reload()
    after = {content.key.eval_id: content.hashes for content in await read_contents(backend)}

    assert after["b"] == before["b"]
    assert after["a"] not in (None, before["a"])


async def test_a_set_that_links_to_a_file_elsewhere_is_listed(
    make_project: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory
) -> None:
    project = make_project(things=[])
    file = project / "things.evalset.json"
    file.symlink_to(file.rename(tmp_path_factory.mktemp("elsewhere") / "kept.json"))
    backend = Backend(project)

    listed = await list_set(backend, file.name)
    backend.close()

    assert listed.cases == () and listed.target == "pinger"


async def test_other_criteria_change_the_scoring_hash_of_every_case(backend: Backend, tmp_path: Path) -> None:
    before = {content.key.eval_id: content.hashes for content in await read_contents(backend)}
    (tmp_path / "test_config.json").write_text('{"criteria": {"exact_match": 1.0}}', encoding="utf-8")

    for content in await read_contents(backend):
        if content.hashes is not None:
            earlier_hashes = before[content.key.eval_id]
            assert earlier_hashes is not None
            assert content.hashes[0] == earlier_hashes[0]
            assert content.hashes[1] != earlier_hashes[1]
            assert content.key.eval_id in ("a", "b")


async def test_a_changed_tool_simulation_makes_verdicts_stale(
    make_project: Callable[..., Path], open_app: Any, make: Any
) -> None:
    def make_simulation(answer: str) -> str:
        injection = {"injected_response": {"state": answer}}
        return json.dumps({"tool_simulation_configs": [{"tool_name": "switch", "injection_configs": [injection]}]})

    project = make_project(
        agent="def switch():\n    return {}\ndef answer(prompt):\n    return str(switch())\n",
        criteria={"exact_match": 0.0},
        lamps=[{"eval_id": "on", "conversation": [make.turn("Turn it on", "on")]}],
    )
    settings = project / "workbench.toml"
    settings.write_text(settings.read_text() + 'simulate_tools = "tools.json"\n')
    (project / "tools.json").write_text(make_simulation("on"))
    async with open_app(project) as screen:
        await screen.until("lamps", "on")
        await screen.press("R")
        await screen.until("✓ 1/1", "finished  ")
        assert "stale" not in screen.text

        (project / "tools.json").write_text(make_simulation("off"))
        await screen.press("f5")
        await screen.until(" ms ✓ ")


async def test_the_verdict_of_an_equal_case_counts_without_its_quarantine(
    make_project: Callable[..., Path], make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    cases = [{"eval_id": name, "conversation": [make.turn("Hi", "x")]} for name in ("a", "b")]
    project = make_project(agent="def answer(prompt):\n    return 'y'\n", criteria={"exact_match": 1.0}, things=cases)
    monkeypatch.chdir(project)
    run_command(["flaky", "quarantine", "things.evalset.json:a"])
    assert run_command(["run", "things.evalset.json:a"]) == 0
    backend = Backend(project)

    await read_contents(backend)
    case = CaseKey(target="pinger", eval_set="things.evalset.json", eval_id="b")
    checked = [each.current async for each in backend.verdict_check.check({case: {}})]
    backend.close()

    assert [of_repeats[0].stored.quarantine for current in checked for of_repeats in current.values()] == [None]
