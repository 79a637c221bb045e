"""What stands in front of functions that look at files without an audit event: `os.stat`, `os.access` and the like."""

from __future__ import annotations

import os
import sys

from .callers import is_asked_by_agent, is_for_warning, is_probe, kinds_asked
from .entries import Entries
from .guard import full_path, guarded
from .recorder import quiet

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Optional

    from .recorder import Recorder

_C_PROBES = ("exists", "lexists", "isfile", "isdir", "islink")  # written in C on Windows, where they ask nobody


def stand_in_front(recorder: Recorder) -> None:
    """Have looks at files told to the recorder."""
    looks = _Looks(recorder)
    for name in ("stat", "lstat"):
        _replace(os, name, _Stat(getattr(os, name), recorder, looks))
    _put_in_front(os, "access", recorder, looks.tried)
    _put_in_front(os, "readlink", recorder, looks.probed)
    _put_in_front(os, "fstat", recorder, looks.looked)
    for name in _C_PROBES:
        if not hasattr(getattr(os.path, name), "__code__"):
            _put_in_front(os.path, name, recorder, looks.probed)
    _replace(os, "scandir", _Scan(os.scandir, recorder, looks.looked))


class _Looks:
    """What each look means."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    def looked(self, path: Any = None, *_: Any, dir_fd: Optional[int] = None, **__: Any) -> None:
        """More is asked than whether something is there."""
        if isinstance(path, int):
            full = full_path(path, follow=True)
            if full is not None and os.path.exists(full):  # no pipe or the like
                self._recorder.asked_about(full, kinds_asked())
            return
        full = full_path(path, dir_fd)
        if full is not None and self._recorder.places.is_inside(full) is not False and not is_for_warning(full):
            self._recorder.read(full)
            self._recorder.asked_about(full, kinds_asked())

    def tried(self, path: Any = None, mode: int = os.F_OK, *_: Any, dir_fd: Optional[int] = None, **__: Any) -> None:
        """It is asked what may be done with a file."""
        self.probed(path, dir_fd=dir_fd)
        full = full_path(path, dir_fd)
        if full is not None and mode != os.F_OK and is_asked_by_agent():
            self._recorder.asked_about(full, ("mode",))

    def probed(self, path: Any = None, *_: Any, dir_fd: Optional[int] = None, **__: Any) -> None:
        """It is asked what is there."""
        full = full_path(path, dir_fd)
        if full is not None:
            self._recorder.probed(full)


class _InFront:
    """Stands for a function of `os`. No Python function: as an attribute of a class that would become a method."""

    def __init__(self, function: Any, module: str, recorder: Recorder, look: Callable[..., None]) -> None:
        self.__name__ = self.__qualname__ = function.__name__
        self.__module__ = module
        self.__doc__ = function.__doc__
        self.__wrapped__ = function
        self.__text_signature__ = getattr(function, "__text_signature__", None)
        self._recorder = recorder
        self._look = look

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        if not quiet.depth:
            guarded(self._recorder, self._look, *arguments, **options)
        return self.__wrapped__(*arguments, **options)

    def __reduce__(self) -> str:
        return str(self.__name__)

    def __repr__(self) -> str:
        return repr(self.__wrapped__)


class _Stat(_InFront):
    """Stands for `os.stat` or `os.lstat`."""

    def __init__(self, function: Any, recorder: Recorder, looks: _Looks) -> None:
        super().__init__(function, "os", recorder, looks.looked)
        self._probe = looks.probed
        self._known = recorder.known_probes

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        if not quiet.depth:
            if not is_probe(sys._getframe().f_back):
                guarded(self._recorder, self._look, *arguments, **options)
            elif not arguments or type(arguments[0]) is not str or arguments[0] not in self._known:
                guarded(self._recorder, self._probe, *arguments, **options)
        return self.__wrapped__(*arguments, **options)


class _Scan(_InFront):
    """Stands for `os.scandir`: what it gives tells of a file what `os.stat` does."""

    def __init__(self, function: Any, recorder: Recorder, look: Callable[..., None]) -> None:
        super().__init__(function, "os", recorder, look)

    def __call__(self, path: Any = ".") -> Any:
        found = self.__wrapped__(path)
        full = None if quiet else full_path("." if path is None else path, follow=True)
        if full is None or self._recorder.places.is_inside(full) is False:
            return found
        return Entries(found, full, self._looked)

    def _looked(self, path: str) -> None:
        guarded(self._recorder, self._look, path)


def _put_in_front(module: Any, name: str, recorder: Recorder, look: Callable[..., None]) -> None:
    _replace(module, name, _InFront(getattr(module, name), module.__name__, recorder, look))


def _replace(module: Any, name: str, wrapper: _InFront) -> None:
    function = wrapper.__wrapped__
    setattr(module, name, wrapper)
    for supporting in (os.supports_dir_fd, os.supports_fd, os.supports_follow_symlinks, os.supports_effective_ids):
        if function in supporting:
            supporting.add(wrapper)
    accessor = getattr(sys.modules.get("pathlib"), "_NormalAccessor", None)  # Python 3.10, imported before us
    if getattr(accessor, name, None) is function:
        setattr(accessor, name, wrapper)
