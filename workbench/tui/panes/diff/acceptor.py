"""Carries out what the user accepts, and tells the main screen what came of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from textual.message import Message
from textual.widget import Widget

from workbench.engine.accepting import Hunk, Refused
from workbench.model.evalset import EvalCase
from workbench.model.results import CaseResult
from workbench.store.errors import FileChanged, StoreError
from workbench.tui.hub import Hub
from workbench.tui.messages import DocumentsChanged, RunBegun, SaveWanted
from workbench.tui.state.pieces import plural
from workbench.tui.widgets.saying import say


class Acceptor:
    """`tell` takes messages to the main screen; `widget` shows what there is to say."""

    def __init__(self, hub: Hub, widget: Widget, tell: Callable[[Message], object]) -> None:
        self._hub = hub
        self._widget = widget
        self._tell = tell

    async def accept(self, case: EvalCase, result: CaseResult, hunks: Sequence[Hunk], *, is_whole: bool) -> str | None:
        """Accept hunks of a result that were found against this case. Gives why it was refused, None where it was done.

        What was accepted is saved, and scored again.
        """
        from workbench.engine.acceptances import Acceptance

        wanted = Acceptance(shown=case, result=result, hunks=hunks, is_whole=is_whole)
        label = f"accept {plural(len(hunks), 'difference')} of {result.case.eval_id}"
        eval_set = result.case.eval_set
        try:
            begun = await self._hub.gateway.accepting.accept(wanted, label=label)
        except Refused as refused:
            return str(refused)
        except FileChanged as error:
            self._tell(DocumentsChanged(frozenset([eval_set])))
            self._tell(SaveWanted(eval_set))
            return str(error)
        except StoreError as error:
            return str(error)
        self._tell(DocumentsChanged(frozenset([eval_set])))
        if isinstance(begun, str):
            say(self._widget, f"accepted and saved, but not scored again: {begun}", severity="warning")
        else:
            self._tell(RunBegun(begun.run, begun.jobs))
        return None
