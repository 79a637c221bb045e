"""What all that watches the agent has in common: it records nothing of itself, and raises nothing into the agent."""

from __future__ import annotations

import os

from .callers import is_raised_by_others
from .recorder import quiet

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Optional

    from .recorder import Recorder


def guarded(recorder: Recorder, call: Callable[..., None], *arguments: Any, **options: Any) -> None:
    """Call, unless this thread is quiet. What is raised by others meanwhile, in a handler of a signal, goes through."""
    if quiet.depth:
        return
    with quiet:
        try:
            call(*arguments, **options)
        except Exception as error:
            if is_raised_by_others(error):
                raise
            recorder.opaque(f"recorder {type(error).__name__}")


def full_path(path: Any, dir_fd: Any = None, *, follow: bool = False) -> Optional[str]:
    """The absolute path; None where it cannot be told, or is none. A descriptor is followed only where asked for."""
    try:
        if isinstance(path, int):
            return os.readlink(f"/proc/self/fd/{path}") if follow else None
        text = path if type(path) is str else os.fsdecode(path)
        if isinstance(dir_fd, int) and dir_fd >= 0 and not os.path.isabs(text):
            text = os.path.join(os.readlink(f"/proc/self/fd/{dir_fd}"), text)
        return os.path.abspath(text)
    except (OSError, TypeError, ValueError):
        return None
