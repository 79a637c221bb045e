"""How the recorder learns what happens: audit events, and what stands in front of functions that raise none.

Nothing of it raises into the agent: what goes wrong makes the record say that anything may have been read.
"""

from __future__ import annotations

import sys

from . import instrument
from .events import Events
from .guard import guarded
from .in_front import stand_in_front
from .recorder import quiet
from .spy import stay_first
from .variables import watch_variables

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, List, Optional, Tuple

    from .recorder import Recorder

_active: List[Recorder] = []


def active() -> Optional[Recorder]:
    """The recorder of this process, where one was installed."""
    return _active[0] if _active else None


def install(recorder: Recorder) -> None:
    """Have everything that happens in this process told to the recorder. Cannot be undone."""
    _active.append(recorder)
    sys.addaudithook(_audit_hook(recorder, Events(recorder).handlers()))
    stand_in_front(recorder)
    watch_variables(recorder)
    stay_first(recorder)
    instrument.at_end.append(recorder.module_ended)


def _audit_hook(recorder: Recorder, handlers: Dict[str, Callable[..., None]]) -> Callable[[str, Tuple[Any, ...]], None]:
    def hook(event: str, arguments: Tuple[Any, ...]) -> None:
        if event in handlers and not quiet.depth:  # most events are `id(x)` and the like: frameworks raise hundreds
            guarded(recorder, handlers[event], *arguments)

    return hook
