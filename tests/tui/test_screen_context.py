"""Workers of controllers and widgets."""

from __future__ import annotations

import ast
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from textual.app import App
from textual.widget import Widget

from workbench.tui.screen_context import Controller, background

TUI = Path(__file__).parents[2] / "workbench" / "tui"


class Huge:
    """A value that is slow to format."""

    def __repr__(self) -> str:
        raise AssertionError("formatted for a description that nobody reads")


async def test_a_worker_does_not_format_its_arguments() -> None:
    """The plan of ten thousand cases took three seconds, in which no key was heard."""
    received: list[Any] = []

    class Collecting(Controller):
        @background(group="collect")
        async def collect(self, value: Huge) -> None:
            received.append(value)

    app, value = App[None](), Huge()
    async with app.run_test() as pilot:
        context: Any = SimpleNamespace(state=None, backend=None)
        widget = Widget()
        await app.mount(widget)
        Collecting(widget, context).collect(value)
        await pilot.pause()

    assert received == [value]


def test_workers_with_arguments_have_a_description() -> None:
    """Textual formats all arguments for workers without one."""
    missing = [
        f"{path.name}: {method.name}"
        for path in TUI.rglob("*.py")
        for method in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(method, ast.AsyncFunctionDef) and len(method.args.args) + len(method.args.kwonlyargs) > 1
        for decorator in method.decorator_list
        if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "work"
        if "description" not in {keyword.arg for keyword in decorator.keywords}
    ]

    assert not missing
