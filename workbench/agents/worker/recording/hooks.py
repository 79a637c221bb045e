"""What is heard while a case runs: audit events, imports, and functions of `os` and the environment."""

from __future__ import annotations

import _imp
import os
import stat
import sys
from _thread import _local
from importlib.machinery import EXTENSION_SUFFIXES

from . import instrument
from .fingerprints import IMPORTED, of_file
from .recorder import quiet
from .scope import (
    instruction,
    is_asked_by_agent,
    is_called_by,
    is_for_proxies,
    is_for_warning,
    is_import_of_library,
    is_probe,
    is_raised_by_others,
    is_view,
    kinds_asked,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

    from .recorder import Recorder


# What all that watches the agent has in common: it records nothing of itself, and raises nothing into the agent.


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


# What audit events tell: each is given to the recorder as what it means.

_ACCESS = os.O_RDONLY | os.O_WRONLY | os.O_RDWR
_LISTS_DISTRIBUTIONS = ("importlib.metadata", "importlib_metadata", "pkg_resources")
_ASKS_THE_SYSTEM = ("platform", "uuid", "ctypes.util", "sysconfig", "_osx_support")


class Events:
    """What each event means."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    def handlers(self) -> Dict[str, Callable[..., None]]:
        return {
            "open": self._opened,
            "os.listdir": self._listed,
            "os.scandir": self._listed,
            "os.getxattr": self._asked_for_attributes,
            "os.listxattr": self._asked_for_attributes,
            "os.mkdir": self._made_folder,
            "os.rmdir": self._removed,
            "os.remove": self._removed,
            "os.truncate": self._truncated,
            "os.rename": self._renamed,
            "os.link": self._linked,
            "os.symlink": self._symlinked,
            "os.putenv": self._set_variable,
            "os.unsetenv": self._set_variable,
            "os.chdir": self._changed_folder,
            "sqlite3.connect": self._connected,
            "subprocess.Popen": self._ran_command,
            "os.system": lambda *_: self._ran_something("os.system"),
            "os.exec": lambda path, *_: self._ran_something(f"os.exec {_name(path)}"),
            "os.posix_spawn": lambda path, *_: self._ran_something(f"os.posix_spawn {_name(path)}"),
            "os.spawn": lambda _, path, *__: self._ran_something(f"os.spawn {_name(path)}"),
            "os.startfile": lambda path, *_: self._ran_something(f"os.startfile {_name(path)}"),
            "os.fork": lambda: self._ran_something("os.fork"),
            "os.forkpty": lambda: self._ran_something("os.forkpty"),
            "pty.spawn": lambda *_: self._ran_something("pty.spawn"),
            "ctypes.dlopen": self._loaded_native,
            "ctypes.dlsym": self._called_native,
            "sqlite3.enable_load_extension": lambda *_: self._ran_something("extensions of SQLite"),
        }

    def _opened(self, path: Any, mode: Any, flags: Any, *_: Any) -> None:
        full = full_path(path)
        if full is None or self._recorder.places.is_inside(full) is False:
            return
        number = flags if isinstance(flags, int) else 0
        reads, writes, keeps = _purpose(mode, number)
        if writes:
            self._recorder.probed_above(full)
        if writes and not _can_be_written(full, number):
            reads, writes = True, False
            self._recorder.asked_about(full if os.path.lexists(full) else os.path.dirname(full), ("mode",))
        elif number & os.O_EXCL:
            reads = False  # it is new
            self._recorder.created(full)
        if reads and not is_for_warning(full):
            self._recorder.read(full)
        if writes:
            self._recorder.wrote(full, keeps=keeps)

    def _listed(self, path: Any, *_: Any) -> None:
        full = full_path("." if path is None else path, follow=True)
        if full is None or self._recorder.places.is_inside(full) is False:
            return
        if is_called_by("importlib._bootstrap_external", "importlib._bootstrap"):
            return  # to find a module: the spy has seen which
        if is_called_by(*_LISTS_DISTRIBUTIONS, within=3):
            self._recorder.listed_for_distributions(full)
        else:
            self._recorder.listed(full)

    def _asked_for_attributes(self, path: Any, *_: Any) -> None:
        if is_asked_by_agent() and not is_called_by("shutil", within=2):  # which only copies them
            self._recorder.opaque(f"extended attributes of {os.path.basename(os.fsdecode(path))}")

    def _made_folder(self, path: Any, _mode: Any = None, dir_fd: Any = -1, *_: Any) -> None:
        full = full_path(path, dir_fd)
        if full is not None:
            self._recorder.made_folder(full)

    def _removed(self, path: Any, dir_fd: Any = -1, *_: Any) -> None:
        full = full_path(path, dir_fd)
        if full is not None:
            self._recorder.removed(full)

    def _truncated(self, path: Any, *_: Any) -> None:
        full = full_path(path)
        if full is not None:
            self._recorder.read(full)
            self._recorder.wrote(full)

    def _renamed(self, source: Any, target: Any, source_fd: Any = -1, target_fd: Any = -1, *_: Any) -> None:
        old, new = full_path(source, source_fd), full_path(target, target_fd)
        if old is not None and new is not None:
            self._recorder.moved(old, new)

    def _linked(self, source: Any, target: Any, source_fd: Any = -1, target_fd: Any = -1, *_: Any) -> None:
        old, new = full_path(source, source_fd), full_path(target, target_fd)
        if old is not None and new is not None:
            self._recorder.read(old)
            self._recorder.created(new)

    def _symlinked(self, _source: Any, target: Any, dir_fd: Any = -1, *_: Any) -> None:
        full = full_path(target, dir_fd)
        if full is not None:
            self._recorder.created(full)

    def _set_variable(self, name: Any, *_: Any) -> None:
        self._recorder.own_variable(os.fsdecode(name))

    def _changed_folder(self, path: Any, *_: Any) -> None:
        full = full_path(path, follow=True)
        if full is not None:
            self._recorder.places.add([full])

    def _connected(self, database: Any, *_: Any) -> None:
        text = os.fsdecode(database)
        if text.startswith("file:"):
            text = _path_of_uri(text)
        full = None if text in ("", ":memory:") else full_path(text)
        if full is not None:
            self._recorder.connected(full)

    def _ran_command(self, executable: Any, arguments: Any = (), *_: Any) -> None:
        if not is_called_by(*_ASKS_THE_SYSTEM, within=6):
            command = executable or (arguments if isinstance(arguments, (str, bytes)) else next(iter(arguments), ""))
            self._ran_something(f"subprocess {_name(command)}")

    def _ran_something(self, why: str) -> None:
        if not is_import_of_library():
            self._recorder.opaque(why)

    def _loaded_native(self, name: Any, *_: Any) -> None:
        if name is None:
            return
        full = full_path(name)
        if is_asked_by_agent() or (full and os.sep in os.fsdecode(name) and self._recorder.places.is_inside(full)):
            self._recorder.opaque(f"ctypes {_name(name)}")

    def _called_native(self, _library: Any, name: Any, *_: Any) -> None:
        """The agent takes a function of a library, it may be one that was there before, as that of C."""
        if is_asked_by_agent() and not is_import_of_library():
            self._recorder.opaque(f"ctypes {name}")


def _purpose(mode: Any, flags: int) -> Tuple[bool, bool, bool]:
    """Whether what is opened will be read as it was before, whether it will be written, and keep what it holds then."""
    if flags:
        access, keeps = flags & _ACCESS, not flags & os.O_TRUNC
        return access != os.O_WRONLY and keeps, access != os.O_RDONLY or not keeps, keeps
    text = mode if isinstance(mode, str) else "r"
    return "r" in text or "a+" in text, any(letter in text for letter in "wax+"), "w" not in text


def _can_be_written(path: str, flags: int) -> bool:
    """Whether opening for writing will succeed. Where it fails, that it fails is all the agent learns of the file."""
    try:
        mode = os.stat(path).st_mode
    except OSError:
        folder = os.path.dirname(path)
        return os.path.isdir(folder) and os.access(folder, os.W_OK)
    if stat.S_ISDIR(mode):
        return False
    return not flags & os.O_EXCL and os.access(path, os.W_OK)


def _path_of_uri(uri: str) -> str:
    """The path in a URI as SQLite takes them: `file:/a%20b?mode=ro`, `file:a`, `file://localhost/a`."""
    path = uri[5:].partition("?")[0].partition("#")[0]
    if path.startswith("//"):
        path = path[path.find("/", 2) :]
    first, *others = path.encode("utf-8", "surrogateescape").split(b"%")
    return os.fsdecode(first + b"".join(bytes.fromhex(other[:2].decode()) + other[2:] for other in others))


def _name(command: Any) -> str:
    """The name of a program or library, without its folder and arguments."""
    words = os.fsdecode(command).split() or [""]
    return os.path.basename(words[0])


# What `os.scandir` gives, with eyes: an entry tells the size of a file or what it is without asking `os` for it.


class Entries:
    """Stands for the iterator."""

    def __init__(self, real: Any, folder: str, looked: Callable[[str], None]) -> None:
        self._real = real
        self._folder = folder
        self._looked = looked
        self.close = real.close

    def __iter__(self) -> Entries:
        return self

    def __next__(self) -> Entry:
        return Entry(next(self._real), self._folder, self._looked)

    def __enter__(self) -> Entries:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Entry:
    """Stands for an `os.DirEntry`. That the names of folders count as such in a listing says what `is_dir` gives."""

    __class__ = property(lambda _: os.DirEntry)  # what `isinstance` is told

    def __init__(self, real: Any, folder: str, looked: Callable[[str], None]) -> None:
        self._real = real
        self._folder = folder
        self._looked = looked
        self.name, self.path = real.name, real.path
        self.inode, self.is_dir, self.is_file, self.is_symlink = real.inode, real.is_dir, real.is_file, real.is_symlink
        self.is_junction = getattr(real, "is_junction", _no)

    def stat(self, *, follow_symlinks: bool = True) -> Any:
        """As with `os.stat`."""
        self._looked(os.path.join(self._folder, os.fsdecode(self.name)))
        return self._real.stat(follow_symlinks=follow_symlinks)

    def __fspath__(self) -> Any:
        return self.path

    def __repr__(self) -> str:
        return repr(self._real)


def _no() -> bool:
    return False


# What stands in front of functions that look at files without an audit event: `os.stat`, `os.access` and the like.

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


# How imports are seen: `importlib.import_module` raises no audit event. A finder that finds nothing stands first.

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


# How the reading of environment variables is seen, of which no audit event tells.

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


# How the recorder learns what happens: audit events, and what stands in front of functions that raise none.

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
