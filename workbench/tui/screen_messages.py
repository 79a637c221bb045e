"""Messages from panes and widgets to the main screen, and what all of them share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from textual.message import Message
from textual.widget import Widget

from workbench.engine.plan import RunOptions, Selection
from workbench.model.criteria import EvalConfig
from workbench.model.identity import CaseKey, JobKey
from workbench.tui.backend.backend import Backend
from workbench.tui.state.browser_state import Pinned
from workbench.tui.state.project_state import ProjectState

if TYPE_CHECKING:
    from workbench.engine.run import Run


# What panes and dialogs ask of the main screen.


@dataclass
class RunWanted(Message):
    """The user wants these cases run, judged by `config` where one is given; with `ask`, to see the plan first.

    With `only_plays` their scenarios are played and nothing is judged. `options` are those of a stopped run to resume.
    """

    selections: Sequence[Selection]
    config: EvalConfig | None = None
    ask: bool = False
    only_plays: bool = False
    options: RunOptions | None = None


@dataclass
class RunBegun(Message):
    """A run was started that nobody prepared, such as one that only scores again.

    With `is_shown` the run line shows it, and it can be stopped.
    """

    run: Run
    jobs: Sequence[JobKey]
    is_shown: bool = False


@dataclass
class CaseWanted(Message):
    """The user wants to look at this case, in this tab where one is named."""

    key: CaseKey
    tab: str | None = None


@dataclass
class TabWanted(Message):
    """The user wants to see this tab."""

    tab: str


@dataclass
class SessionWanted(Message):
    """The user wants to look at this session in place of the newest result."""

    pinned: Pinned
    tab: str | None = None


@dataclass
class DocumentsChanged(Message):
    """These eval sets were edited, saved or read again: what is shown of them is to be read anew."""

    eval_sets: frozenset[str]


@dataclass
class ProjectChanged(Message):
    """Files came or went: everything is to be looked at again, and then this case or eval set selected."""

    select: CaseKey | str | None = None


@dataclass
class SaveWanted(Message):
    """The edits of this eval set are to be saved; where its file has changed, the user decides first."""

    eval_set: str


# What every pane is given: the state that all of them show, and the way to engine and store.


@dataclass(frozen=True)
class ScreenContext:
    """Shared by all panes of the main screen. Panes read `state` and change it only through its methods."""

    state: ProjectState
    backend: Backend


# Parts of a screen that work for it and show nothing.


class Faceless(Widget):
    """Has workers, timers and messages as a widget does, and no place on the screen."""

    DEFAULT_CSS: ClassVar[str] = "Faceless { display: none; }"
