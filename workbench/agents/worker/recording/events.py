"""What audit events tell: each is given to the recorder as what it means."""

from __future__ import annotations

import os
import stat

from .callers import is_asked_by_agent, is_called_by, is_for_warning, is_import_of_library
from .guard import full_path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, Tuple

    from .recorder import Recorder

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
