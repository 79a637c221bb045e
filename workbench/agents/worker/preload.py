"""What a warm process imports before it forks: what a child was seen to import, and nothing of the agent's own."""

from __future__ import annotations

import gc
import importlib
import os
import sys

from .loading import has_entered, open_path, shadowed_names
from .recording import hooks
from .recording.fingerprints import of_environment
from .recording.recorder import quiet
from .recording.scope import LIBRARY_FOLDERS, is_workspace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, Iterable, Iterator, List, Optional

_HOLES = 32_768  # bytes for each of the sizes in which Python allocates, 16 to 512: a process of 50 MB has fewer free
_BYTES_HEADER = sys.getsizeof(b"")
_filling: List[List[object]] = []


class Unsafe(Exception):
    """A package that must not be imported before the fork: it starts threads, or reads what only a child knows."""

    def __init__(self, package: str) -> None:
        super().__init__(package)
        self.package = package


def imported_since(before: Iterable[str], roots: List[str]) -> List[str]:
    """The modules that this process imported and that its parent may: libraries, in the order of their import."""
    shadowed = shadowed_names(roots)
    names = []
    for name, module in list(sys.modules.items()):
        spec = getattr(module, "__spec__", None)
        if spec is None or spec.name != name or name in before or name.split(".", 1)[0] in shadowed:
            continue
        if spec.origin is None or (spec.has_location and is_workspace(spec.origin)):
            continue
        names.append(name)
    return names


def changed_keys(before: Dict[str, str]) -> List[str]:
    """The environment variables that this process has set, changed or removed."""
    now = dict(os.environ)
    return sorted(key for key in {*before, *now} if before.get(key) != now.get(key))


def preload(names: Iterable[str], *, excluded: Iterable[str], keys: Iterable[str]) -> None:
    """Import modules. One that fails is left to the children. Raises Unsafe at the first that may not be.

    `keys` are environment variables that children set before they import: a module that looks at one while it is
    imported would see another value here.
    """
    barred = set(excluded)
    if not has_entered():
        open_path()
    with _EnvironmentWatch(set(keys)) as watch:
        for name in names:
            package = name.split(".", 1)[0]
            if package in barred or name in sys.modules:
                continue
            try:
                importlib.import_module(name)
            except BaseException:  # of whatever kind: the child meets it again and reports it
                continue
            if watch.seen or count_threads() > 1:
                raise Unsafe(package)


def environment() -> Dict[str, str]:
    """How the interpreter and what is installed for it were when this process began, with libraries imported since."""
    recorder = hooks.active()
    if recorder is None:
        return {}
    specs = [getattr(module, "__spec__", None) for module in list(sys.modules.values())]
    origins = [str(getattr(spec, "origin", "")) for spec in specs if getattr(spec, "has_location", False)]
    files = [path for path in origins if any(folder in path for folder in LIBRARY_FOLDERS)]
    with quiet:
        return {**{path: of_environment(path) for path in files}, **recorder.environment}


def count_threads() -> int:
    """The threads of this process, also those Python does not know of."""
    return len(os.listdir("/proc/self/task"))


def settle() -> None:
    """Make memory cheap to share: nothing is collected, so nothing is written to, in what children inherit."""
    gc.collect()
    _fill_holes()
    gc.disable()
    gc.freeze()


def _fill_holes() -> None:
    """Take, for good, what memory is free between objects.

    What children allocate lay there otherwise, on pages that they share and have to copy for a few objects each. In
    memory that is new it lies side by side.
    """
    _filling.append([object() for _ in range(_HOLES // 16)])
    _filling.append([complex(number) for number in range(_HOLES // 32)])
    _filling.extend([bytes(size - _BYTES_HEADER) for _ in range(_HOLES // size)] for size in range(48, 513, 16))


class _EnvironmentWatch:
    """Notes whether any of some variables is read, while it is entered."""

    def __init__(self, keys: set[str]) -> None:
        self.seen = False
        self._keys = keys
        self._kind: Any = type(os.environ)
        self._get: Any = self._kind.__getitem__
        self._iterate: Any = self._kind.__iter__

    def __enter__(self) -> _EnvironmentWatch:
        if self._keys:
            self._kind.__getitem__ = self._watched_get()
            self._kind.__iter__ = self._watched_iterate()
        return self

    def __exit__(self, *error: object) -> None:
        self._kind.__getitem__ = self._get
        self._kind.__iter__ = self._iterate

    def _watched_get(self) -> Any:
        def get(environ: Any, key: Any) -> Any:
            self.seen = self.seen or key in self._keys
            return self._get(environ, key)

        return get

    def _watched_iterate(self) -> Any:
        def iterate(environ: Any) -> Optional[Iterator[str]]:
            self.seen = True
            found: Iterator[str] = self._iterate(environ)
            return found

        return iterate
