"""Adding an agent on the screen: input, validation, writing and listing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from workbench.store.settings import load_settings


async def test_an_agent_is_added_to_the_settings_and_listed_with_its_sets(make_project: Any, open_app: Any) -> None:
    project: Path = make_project(lights=[{"eval_id": "lamp", "conversation": []}])
    before = (project / "workbench.toml").read_text()
    (project / "web").mkdir()
    (project / "web/talks.evalset.json").write_text('{"eval_set_id": "talks", "eval_cases": []}')

    async with open_app(project) as screen:
        await screen.until("lights")
        await screen.press("alt+n")
        await screen.until("of which kind")
        await screen.press("j", "j", "j", "j", "j", "enter")
        await screen.until("Name of the agent")
        await screen.press(*"web", "enter")
        await screen.until("Where is it? the URL")
        await screen.press(*"nowhere", "enter")
        await screen.until("expected an http:// or https:// URL")
        await screen.press(*["backspace"] * 7, *"http://127.0.0.1:9/", "enter")
        await screen.until("Patterns of its eval sets")
        await screen.press("enter")
        await screen.until("added web to", "talks")

    after = (project / "workbench.toml").read_text()
    new_target = load_settings(project, user_file=project / "none").settings.targets["web"]
    assert after.startswith(before)
    assert (new_target.kind, new_target.target, new_target.eval_sets) == (
        "http",
        "http://127.0.0.1:9/",
        ("web/*.evalset.json",),
    )


async def test_cancelling_writes_nothing_and_a_used_name_is_refused(make_project: Any, open_app: Any) -> None:
    project: Path = make_project(lights=[{"eval_id": "lamp", "conversation": []}])
    before = (project / "workbench.toml").read_text()
    (used_name,) = load_settings(project, user_file=project / "none").settings.targets

    async with open_app(project) as screen:
        await screen.until("lights")
        await screen.press("alt+n")
        await screen.until("of which kind")
        await screen.press("escape", "alt+n")
        await screen.until("of which kind")
        await screen.press("enter")
        await screen.until("Name of the agent")
        await screen.press(*used_name, "enter")
        await screen.until("Where is it")
        await screen.press(*"a:b", "enter")
        await screen.until("Patterns of its eval sets")
        await screen.press("enter")
        await screen.until("already")

    assert (project / "workbench.toml").read_text() == before
