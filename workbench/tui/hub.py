"""What every pane is given: the state that all of them show, and the way to engine and store."""

from __future__ import annotations

from dataclasses import dataclass

from workbench.tui.gateway import Gateway
from workbench.tui.state.project import ProjectState


@dataclass(frozen=True)
class Hub:
    """Shared by all panes of the main screen. Panes read `state` and change it only through its methods."""

    state: ProjectState
    gateway: Gateway
