"""`workbench watch`: watch mode without the terminal application, a line for each verdict."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from workbench.cli.options import Execution, case_options, config_option, execution_options, judging_options

if TYPE_CHECKING:
    from workbench.cli.watch_lines import Lines
    from workbench.engine.plan import Selection
    from workbench.engine.workspace import Workspace
    from workbench.watch.session import WatchSession

T = TypeVar("T")

_LOOK_FOR_READER = 1.0  # seconds


@click.command()
@case_options
@config_option
@execution_options
@judging_options
@click.option(
    "--format",
    "report_format",
    type=click.Choice(("text", "jsonl")),
    default="text",
    help="Lines for people, or one JSON object a line.",
)
@click.option("--plain", is_flag=True, help="No colours.")
@click.option(
    "--verbose",
    is_flag=True,
    help="Show tracebacks, what agents wrote to stdout and stderr, and the samples of judges.",
)
def watch(
    *,
    what: tuple[str, ...],
    cases: tuple[str, ...],
    target: str | None,
    config: Path | None,
    execution: Execution,
    judging: Execution,
    report_format: str,
    plain: bool,
    verbose: bool,
) -> int:
    """Watch the project and run what a change affects.

    At the start, verdicts of earlier runs that still hold are shown as such, and the other cases run. Then every save
    runs the cases that it affects, and no others; one that only changes what is expected is judged again without
    running the agent. The arguments are those of `workbench run`. A project without a case is watched until it has
    one. Ctrl-C ends the watch.
    """
    from workbench.cli.interrupt import INTERRUPTED
    from workbench.cli.run import open_workspace, selections_of
    from workbench.cli.running import command_line
    from workbench.cli.streams import READER_GONE, has_reader, message
    from workbench.cli.watch_lines import JsonLines, TextLines
    from workbench.engine.named import is_marked
    from workbench.engine.plan import NoCases, RunOptions
    from workbench.watch.opening import open_watch
    from workbench.watch.planning import without_addresses

    workspace, named = open_workspace(what, target=target)
    options = RunOptions.model_validate(
        {
            "config": None if config is None else config.resolve(),  # by which a change of it is known
            **execution,
            **judging,
            "command": command_line(),
            "adk_results": False,
        }
    )

    def select(space: Workspace) -> Sequence[Selection]:
        return selections_of(space, named, cases=cases)

    def refuse_mistakes(look: Callable[[], object]) -> None:
        """Raise what is wrong with the cases that were asked for; a project that has none yet is watched until then."""
        try:
            look()
        except NoCases:
            is_project = is_marked(workspace.root) or workspace.project.targets
            if what or cases or target or not is_project:
                raise

    def refuse_nothing() -> None:
        refuse_mistakes(lambda: workspace.plan(without_addresses(select(workspace), workspace.project), options))

    with workspace:
        said = workspace.problems
        for problem in said:
            message(problem)
        refuse_mistakes(lambda: select(workspace))  # at once; more is known when the watch has planned the cases
        session = open_watch(workspace, select, options, off_loop=_in_thread)
        if report_format == "jsonl":
            _listen(session, JsonLines(open_history=workspace.history), refuse_nothing=refuse_nothing)
        else:
            _listen(session, TextLines(plain=plain, verbose=verbose, said=said), refuse_nothing=refuse_nothing)
    return INTERRUPTED if has_reader() else READER_GONE


async def _in_thread(function: Callable[[], T]) -> T:
    import asyncio

    return await asyncio.to_thread(function)


def _listen(session: WatchSession, lines: Lines, *, refuse_nothing: Callable[[], None]) -> None:
    """Print what happens until Ctrl-C or SIGTERM, or until nobody reads it.

    `refuse_nothing` may raise where there is no case to begin with.
    """
    import asyncio
    import contextlib
    import signal

    from workbench.cli.streams import has_reader
    from workbench.watch.events import WatchStarted

    async def listen() -> None:
        async for event in session.events():
            if isinstance(event, WatchStarted) and not event.total:
                refuse_nothing()
            lines.show(event)

    async def until_stopped() -> None:
        def look_for_reader() -> None:
            if has_reader():
                asyncio.get_running_loop().call_later(_LOOK_FOR_READER, look_for_reader)
            else:
                listening.cancel()

        listening = asyncio.ensure_future(listen())
        for number in (signal.SIGINT, signal.SIGTERM):
            with contextlib.suppress(NotImplementedError):  # Windows: KeyboardInterrupt it is
                asyncio.get_running_loop().add_signal_handler(number, listening.cancel)
        look_for_reader()
        with contextlib.suppress(asyncio.CancelledError):
            await listening

    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(until_stopped())
