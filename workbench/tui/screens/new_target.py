"""Adds an agent to the settings of the project: asked for its kind, its name, where it is, and its eval sets."""

from __future__ import annotations

from textual.widget import Widget

from workbench.store.errors import StoreError
from workbench.store.new_target import LOCATIONS, NewTarget, check_target, eval_sets_by_default
from workbench.tui.hub import Hub
from workbench.tui.messages import ProjectChanged
from workbench.tui.screens.ask import AskScreen
from workbench.tui.screens.choose import ChooseScreen
from workbench.tui.widgets.saying import say


async def add_target(widget: Widget, hub: Hub) -> None:
    """Everything from the questions to the written file. `widget` is what asks and says."""
    try:
        target = await _described(widget)
        if target is None:
            return
        file = await hub.gateway.project.add_target(target)
    except StoreError as error:
        say(widget, str(error), severity="error")
        return
    widget.post_message(ProjectChanged())
    say(widget, f"{target.name} is in {file}; `workbench doctor --check` says whether it can be reached")


async def _described(widget: Widget) -> NewTarget | None:
    """What the user wants; None where they changed their mind."""
    kinds = list(LOCATIONS)
    chosen = await widget.app.push_screen_wait(
        ChooseScreen("Add an agent: how is it reached?", [f"{kind}: {what}" for kind, what in LOCATIONS.items()])
    )
    if chosen is None:
        return None
    kind = kinds[chosen]

    def problem_of(name: str, location: str) -> str | None:
        try:
            check_target(NewTarget(name=name, kind=kind, location=location))
        except StoreError as error:
            return error.message
        return None

    name = await widget.app.push_screen_wait(AskScreen("What is it to be called?", check=_problem_of_name))
    if name is None:
        return None
    question = f"Where is it? {LOCATIONS[kind]}"
    location = await widget.app.push_screen_wait(AskScreen(question, check=lambda text: problem_of(name, text)))
    if location is None:
        return None
    usual = " ".join(eval_sets_by_default(kind, name))
    sets = await widget.app.push_screen_wait(
        AskScreen("Which eval sets are for it? Patterns; nothing: those near it.", value=usual, check=lambda _: None)
    )
    return None if sets is None else NewTarget(name=name, kind=kind, location=location, eval_sets=tuple(sets.split()))


def _problem_of_name(text: str) -> str | None:
    return None if text and text.isprintable() else "found nothing, expected the name of an agent"
