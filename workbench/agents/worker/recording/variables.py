"""How the reading of environment variables is seen, of which no audit event tells."""

from __future__ import annotations

import os
from _thread import _local

from .callers import instruction, is_for_proxies, is_view
from .guard import guarded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Iterator, Optional, Tuple

    from .recorder import Recorder


_OVER = (0, 0)
"""In place of a call that is over, as another one may come to be where it was."""


class _Here(_local):
    """Of this thread: the call that runs over all variables. `dict(os.environ)` asks for each value, too."""

    call: Optional[Tuple[int, int]] = None


def watch_variables(recorder: Recorder) -> None:
    """Have the reading of variables told to the recorder."""
    kind: Any = type(os.environ)
    original_get, original_iterate = kind.__getitem__, kind.__iter__
    known = recorder.known_variables
    here = _Here()

    def get(environ: Any, key: Any) -> Any:
        try:
            value = original_get(environ, key)
        except KeyError:
            if key not in known:
                guarded(recorder, read, key, None)
            raise
        if key not in known:  # frameworks read some again and again
            guarded(recorder, read, key, value)
        return value

    def read(key: Any, value: Any) -> None:
        name = os.fsdecode(key)
        name = name.upper() if os.name == "nt" else name
        if here.call is not None:
            if is_view() or instruction() == here.call:
                return
            here.call = _OVER
        recorder.variable_read(name, None if value is None else os.fsdecode(value))

    def iterate(environ: Any) -> Iterator[Any]:
        guarded(recorder, read_all)
        return original_iterate(environ)  # type: ignore[no-any-return]

    def read_all() -> None:
        here.call = instruction()
        recorder.variables_read("proxies" if is_for_proxies() else "all")

    kind.__getitem__, kind.__iter__ = get, iterate
