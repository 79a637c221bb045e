"""How imports are seen: `importlib.import_module` raises no audit event. A finder that finds nothing stands first."""

from __future__ import annotations

import _imp
import os
import sys
from importlib.machinery import EXTENSION_SUFFIXES

from .fingerprints import IMPORTED, of_file
from .guard import guarded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .recorder import Recorder

_BUILT_IN = frozenset(sys.builtin_module_names)
_SPAWNS = ("multiprocessing.popen_spawn_posix", "multiprocessing.popen_forkserver", "multiprocessing.popen_spawn_win32")


def stay_first(recorder: Recorder) -> None:
    """Stand before all finders, also those that came since."""
    sys.meta_path[:] = [Spy(recorder), *(finder for finder in sys.meta_path if not isinstance(finder, Spy))]


class Spy:
    """The first finder. Finds nothing, and sees what is looked for."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    def find_spec(self, name: str, path: Any = None, _target: Any = None) -> None:
        guarded(self._recorder, self._seek, name, path)

    def invalidate_caches(self) -> None:
        """Nothing is kept."""

    def _seek(self, name: str, path: Any) -> None:
        if name in _SPAWNS:
            self._recorder.opaque(name)
        if path is None and (name in _BUILT_IN or _imp.is_frozen(name)):
            return
        last = name.rpartition(".")[2]
        if "," in last or "::" in last:
            self._recorder.opaque("import of what is no name")
            return
        for folder in sys.path if path is None else path:
            if not isinstance(folder, str):
                continue
            if path is None:
                self._recorder.sought_at_top(folder or os.getcwd())
            found = self._recorder.sought(folder or os.getcwd(), last)
            if found in ("extension", "extension+module"):
                self._note_extension(folder, last)
            if found in IMPORTED:
                return

    def _note_extension(self, folder: str, name: str) -> None:
        for suffix in EXTENSION_SUFFIXES:
            path = os.path.join(folder, name + suffix)
            fingerprint = of_file(path)
            if fingerprint not in ("absent", "folder"):
                self._recorder.loaded(path, fingerprint)
                return
