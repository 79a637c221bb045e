"""The context that panes and controllers of the main screen share, their base classes, and messages to the screen."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, ClassVar, Concatenate, ParamSpec, TypeVar

from textual.app import App
from textual.containers import Vertical
from textual.message import Message
from textual.widget import Widget
from textual.worker import Worker

from workbench.engine.plan import RunOptions, Selection
from workbench.model.criteria import EvalConfig
from workbench.model.identity import CaseKey, JobKey
from workbench.tui.backend.backend import Backend
from workbench.tui.keys import KeyHolder
from workbench.tui.state.browser_state import PinnedResult, Subject
from workbench.tui.state.project_state import ProjectState

if TYPE_CHECKING:
    from workbench.engine.run import Run


# Requests from panes and dialogs to the main screen.


@dataclass
class RunWanted(Message):
    """Request to run these cases. `config`, if given, replaces their criteria. `ask` shows the plan first.

    `only_plays` plays the scenarios and scores nothing. `fresh` replays no model calls. `runs` is the number of
    repeats, None for that of the settings. `options` are those of a run that was stopped, to resume it.
    """

    selections: Sequence[Selection]
    config: EvalConfig | None = None
    ask: bool = False
    only_plays: bool = False
    fresh: bool = False
    runs: int | None = None
    options: RunOptions | None = None


@dataclass
class RunBegun(Message):
    """A run was started without a plan, such as one that only rescores.

    If `is_shown`, the run line shows it and the user can stop it.
    """

    run: Run
    jobs: Sequence[JobKey]
    is_shown: bool = False


@dataclass
class CaseWanted(Message):
    """Request to show this case, in this tab if one is given."""

    key: CaseKey
    tab: str | None = None


@dataclass
class BranchWanted(Message):
    """Request for a chat that begins with turns of the last run of this case; `turn` is proposed as the last of them.

    None: the last turn. `repeat` is the repeat that has the turns; None: the shown one.
    """

    case: CaseKey
    turn: int | None = None
    repeat: int | None = None


@dataclass
class TabWanted(Message):
    """Request to open this tab. If a case is given, its editor begins to edit the first prompt."""

    tab: str
    types_prompt_of: CaseKey | None = None


@dataclass
class SessionWanted(Message):
    """Request to show this session instead of the newest result."""

    pinned: PinnedResult
    tab: str | None = None


@dataclass
class DocumentsChanged(Message):
    """These eval sets were edited, saved or reloaded; the screen has to read them again."""

    eval_sets: frozenset[str]


@dataclass
class ProjectChanged(Message):
    """Files were added or removed. Reload the project, then select this case or eval set."""

    select: CaseKey | str | None = None


@dataclass
class SaveWanted(Message):
    """Request to save the edits of this eval set. If its file changed on disk, the user decides first."""

    eval_set: str


# Context that the panes and controllers of the main screen share.


@dataclass(frozen=True)
class ScreenContext:
    """The state that all panes show, and the backend. Panes change `state` only through its methods."""

    state: ProjectState
    backend: Backend


class Controller:
    """A part of a widget without its own display. It uses the workers, timers and messages of the widget."""

    def __init__(self, widget: Widget, context: ScreenContext) -> None:
        self.widget = widget
        self.context = context
        self.state = context.state
        self.backend = context.backend

    @property
    def app(self) -> App[object]:
        return self.widget.app

    def post_message(self, message: Message) -> None:
        """Send a message to the widget."""
        self.widget.post_message(message)


class RestingTimer:
    """Calls a function at an interval while the function has work, so that an idle screen costs nothing."""

    def __init__(self, widget: Widget | App[Any], seconds: float, work: Callable[[], bool]) -> None:
        """`work` returns False if it need not be called again before `wake`. The timer rests at first."""
        self._work = work
        self._timer = widget.set_interval(seconds, self._tick, pause=True)

    def wake(self) -> None:
        """Call the function soon, at once if the timer has rested for longer than its interval."""
        self._timer.resume()

    def restart(self) -> None:
        """Call the function after the interval, or a little later if the timer did not rest."""
        self._timer.reset()

    def rest(self) -> None:
        """Do not call the function before `wake`."""
        self._timer.pause()

    def _tick(self) -> None:
        if not self._work():
            self._timer.pause()


P = ParamSpec("P")
C = TypeVar("C", bound=Controller)
Method = Callable[Concatenate[C, P], Coroutine[Any, Any, None]]


def background(
    *, group: str, exclusive: bool = False
) -> Callable[[Method[C, P]], Callable[Concatenate[C, P], Worker[None]]]:
    """Decorate a controller method to run in a worker of its widget, as `textual.work` does for widgets.

    All controllers of a widget share its groups. With `exclusive`, a call cancels the other workers of the group.
    """

    def decorate(method: Method[C, P]) -> Callable[Concatenate[C, P], Worker[None]]:
        @wraps(method)
        def start(controller: C, /, *args: P.args, **kwargs: P.kwargs) -> Worker[None]:
            work = partial(method, controller, *args, **kwargs)
            return controller.widget.run_worker(
                work, name=method.__name__, group=group, description=method.__name__, exclusive=exclusive
            )

        return start

    return decorate


# The base class of panes.


class Pane(KeyHolder, Vertical):
    """A part of the main screen that shows the selection in one way.

    `TAB` is the word on its tab, `HELP` explains it in two or three sentences, `PLACES` names its groups of keys. A
    pane is made when it is first opened, and does nothing while it is hidden.
    """

    TAB: ClassVar[str] = ""
    HELP: ClassVar[str] = ""

    def __init__(self, context: ScreenContext, *, id: str) -> None:
        super().__init__(id=id)
        self.context = context

    @property
    def must_stay(self) -> bool:
        """True if the user types for a case or agent that is gone; the text would act as commands elsewhere."""
        return False

    def show(self, subject: Subject) -> None:
        """Show the current selection. Only called while the pane is open."""
        raise NotImplementedError

    def focus_first(self) -> None:
        """Focus the widget that the user needs first in this pane."""
        raise NotImplementedError

    def hide(self) -> None:
        """Stop background work, because the pane is no longer open."""

    async def may_leave(self) -> bool:
        """Ask about data that quitting would lose, if any. Return False if the user stays."""
        return True

    def copyable(self) -> str | None:
        """Return the text to copy, unescaped; None without a text."""
        return None

    def find_turn_at_cursor(self) -> int | None:
        """Return the turn that the cursor is in, counted from 0; None if it is in no turn."""
        return None


# Copying to the clipboard.


def find_copyable_text(focused: Widget | None, *, otherwise: Pane) -> str | None:
    """Return the text to copy of the pane with the focus, or of the pane `otherwise`."""
    around = focused.ancestors_with_self if focused is not None else []
    return next((node for node in around if isinstance(node, Pane)), otherwise).copyable()
