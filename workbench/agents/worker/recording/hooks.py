"""Observation of a running case: audit events, imports, functions of `os`, and environment variables."""

from __future__ import annotations

import _imp
import os
import stat
import sys
from _thread import _local
from functools import partial
from importlib.machinery import EXTENSION_SUFFIXES

from . import instrument
from .fingerprints import IMPORTED, of_file
from .recorder import quiet
from .scope import (
    find_requested_metadata,
    get_call_site,
    has_caller,
    is_agent_request,
    is_for_proxies,
    is_for_warning,
    is_import_of_library,
    is_probe,
    is_raised_by_others,
    is_view,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Iterator

    from .recorder import Recorder


# Handlers record nothing that they do themselves, and raise nothing into the agent.


def call_guarded(recorder: Recorder, call: Callable[..., None], *arguments: Any, **options: Any) -> None:
    """Call a handler unless this thread is quiet. Only exceptions of signal handlers, which are not ours, propagate."""
    if quiet.depth:
        return
    with quiet:
        try:
            call(*arguments, **options)
        except Exception as error:
            if is_raised_by_others(error):
                raise
            recorder.note_opaque(f"recorder {type(error).__name__}")


def resolve_path(path: Any, dir_fd: Any = None, *, follow: bool = False) -> str | None:
    """Return the absolute path, or None if there is none. Descriptors are resolved only with `follow`."""
    try:
        if isinstance(path, int):
            return os.readlink(f"/proc/self/fd/{path}") if follow else None
        text = path if type(path) is str else os.fsdecode(path)
        if isinstance(dir_fd, int) and dir_fd >= 0 and not os.path.isabs(text):
            text = os.path.join(os.readlink(f"/proc/self/fd/{dir_fd}"), text)
        return os.path.abspath(text)
    except (OSError, TypeError, ValueError):
        return None


# Audit events.

_ACCESS = os.O_RDONLY | os.O_WRONLY | os.O_RDWR
_LISTS_DISTRIBUTIONS = ("importlib.metadata", "importlib_metadata", "pkg_resources")
_ASKS_THE_SYSTEM = ("platform", "uuid", "ctypes.util", "sysconfig", "_osx_support")


class AuditEvents:
    """Handlers of audit events: each reports to the recorder what the event means."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    def handlers(self) -> dict[str, Callable[..., None]]:
        return {
            "open": self._on_open,
            "os.listdir": self._on_list,
            "os.scandir": self._on_list,
            "os.getxattr": self._on_xattr,
            "os.listxattr": self._on_xattr,
            "os.mkdir": self._on_mkdir,
            "os.rmdir": self._on_remove,
            "os.remove": self._on_remove,
            "os.truncate": self._on_truncate,
            "os.rename": self._on_rename,
            "os.link": self._on_link,
            "os.symlink": self._on_symlink,
            "os.putenv": self._on_putenv,
            "os.unsetenv": self._on_putenv,
            "os.chdir": self._on_chdir,
            "sqlite3.connect": self._on_connect,
            "subprocess.Popen": self._on_popen,
            "os.system": lambda *_: self._note_opaque("os.system"),
            "os.exec": lambda path, *_: self._note_opaque(f"os.exec {_get_program_name(path)}"),
            "os.posix_spawn": lambda path, *_: self._note_opaque(f"os.posix_spawn {_get_program_name(path)}"),
            "os.spawn": lambda _, path, *__: self._note_opaque(f"os.spawn {_get_program_name(path)}"),
            "os.startfile": lambda path, *_: self._note_opaque(f"os.startfile {_get_program_name(path)}"),
            "os.fork": lambda: self._note_opaque("os.fork"),
            "os.forkpty": lambda: self._note_opaque("os.forkpty"),
            "pty.spawn": lambda *_: self._note_opaque("pty.spawn"),
            "ctypes.dlopen": self._on_dlopen,
            "ctypes.dlsym": self._on_dlsym,
            "sqlite3.enable_load_extension": lambda *_: self._note_opaque("extensions of SQLite"),
        }

    def _on_open(self, path: Any, mode: Any, flags: Any, *_: Any) -> None:
        full = resolve_path(path)
        if full is None or self._recorder.places.is_inside(full) is False:
            return
        if has_caller("tempfile", within=3) and os.path.isdir(full):
            return  # the folder of a new file
        number = flags if isinstance(flags, int) else 0
        reads, writes, keeps = _classify_open(mode, number)
        if writes:
            self._recorder.note_parent_probe(full)
        if writes and not _can_be_written(full, number):
            reads, writes = True, False
            self._recorder.note_metadata(full if os.path.lexists(full) else os.path.dirname(full), ("mode",))
        elif number & os.O_EXCL:
            reads = False  # it is new
            self._recorder.note_creation(full)
        if reads and not is_for_warning(full):
            self._recorder.note_read(full)
        if writes:
            self._recorder.note_write(full, keeps=keeps)

    def on_open_in_folder(self, path: Any = "", flags: int = 0, *_: Any, dir_fd: int | None = None, **__: Any) -> None:
        """Note that a file in an open folder is opened. The audit event does not name the folder."""
        full = None if dir_fd is None else resolve_path(path, dir_fd)
        if full is not None:
            self._on_open(full, None, flags)

    def _on_list(self, path: Any, *_: Any) -> None:
        full = resolve_path("." if path is None else path, follow=True)
        if full is None or self._recorder.places.is_inside(full) is False:
            return
        if has_caller("importlib._bootstrap_external", "importlib._bootstrap"):
            return  # the search for a module, which the import observer has seen
        if has_caller(*_LISTS_DISTRIBUTIONS, within=3):
            self._recorder.note_distribution_listing(full)
        else:
            self._recorder.note_listing(full)

    def _on_xattr(self, path: Any, *_: Any) -> None:
        if is_agent_request() and not has_caller("shutil", within=2):  # it only copies them
            self._recorder.note_opaque(f"extended attributes of {os.path.basename(os.fsdecode(path))}")

    def _on_mkdir(self, path: Any, _mode: Any = None, dir_fd: Any = -1, *_: Any) -> None:
        full = resolve_path(path, dir_fd)
        if full is not None:
            self._recorder.note_folder_creation(full)

    def _on_remove(self, path: Any, dir_fd: Any = -1, *_: Any) -> None:
        full = resolve_path(path, dir_fd)
        if full is not None:
            self._recorder.note_removal(full)

    def _on_truncate(self, path: Any, *_: Any) -> None:
        full = resolve_path(path)
        if full is not None:
            self._recorder.note_read(full)
            self._recorder.note_write(full)

    def _on_rename(self, source: Any, target: Any, source_fd: Any = -1, target_fd: Any = -1, *_: Any) -> None:
        old, new = resolve_path(source, source_fd), resolve_path(target, target_fd)
        if old is not None and new is not None:
            self._recorder.note_move(old, new)

    def _on_link(self, source: Any, target: Any, source_fd: Any = -1, target_fd: Any = -1, *_: Any) -> None:
        old, new = resolve_path(source, source_fd), resolve_path(target, target_fd)
        if old is not None and new is not None:
            self._recorder.note_read(old)
            self._recorder.note_creation(new)

    def _on_symlink(self, _source: Any, target: Any, dir_fd: Any = -1, *_: Any) -> None:
        full = resolve_path(target, dir_fd)
        if full is not None:
            self._recorder.note_creation(full)

    def _on_putenv(self, name: Any, *_: Any) -> None:
        self._recorder.ignore_variable(os.fsdecode(name))

    def _on_chdir(self, path: Any, *_: Any) -> None:
        full = resolve_path(path, follow=True)
        if full is not None:
            self._recorder.places.add([full])

    def on_native_read(self, argument: Any, library: str) -> None:
        """Note the file that an argument names, which a library opens by itself."""
        if library == instrument.OF_SQL:
            attached = instrument.list_attached(argument) if isinstance(argument, str) else None
            if attached is None:
                self._recorder.note_opaque(library)
            for database in attached or ():
                self._on_connect(database)
        elif isinstance(argument, (str, bytes, os.PathLike)):  # not an open file
            text = None if isinstance(argument, bytes) else os.fsdecode(argument)  # bytes may be content
            full = None if text is None or _names_several_files(text) else resolve_path(text)
            if full is not None and not os.path.isdir(full):
                self._recorder.note_read(full)
                if library != "lxml" or not _includes_files(full):
                    return
            self._recorder.note_opaque(f"{library} opens files by itself")

    def _on_connect(self, database: Any, *_: Any) -> None:
        text = os.fsdecode(database)
        if text.startswith("file:"):
            text = _parse_uri_path(text)
        full = None if text in ("", ":memory:") else resolve_path(text)
        if full is not None:
            self._recorder.note_database(full)

    def _on_popen(self, executable: Any, arguments: Any = (), *_: Any) -> None:
        if not has_caller(*_ASKS_THE_SYSTEM, within=6):
            command = executable or (arguments if isinstance(arguments, (str, bytes)) else next(iter(arguments), ""))
            self._note_opaque(f"subprocess {_get_program_name(command)}")

    def _note_opaque(self, why: str) -> None:
        if not is_import_of_library():
            self._recorder.note_opaque(why)

    def _on_dlopen(self, name: Any, *_: Any) -> None:
        if name is None:
            return
        full = resolve_path(name)
        if is_agent_request() or (full and os.sep in os.fsdecode(name) and self._recorder.places.is_inside(full)):
            self._recorder.note_opaque(f"ctypes {_get_program_name(name)}")

    def _on_dlsym(self, _library: Any, name: Any, *_: Any) -> None:
        """Note that the agent takes a function from a native library, even one loaded before, such as libc."""
        if is_agent_request() and not is_import_of_library():
            self._recorder.note_opaque(f"ctypes {name}")


def _names_several_files(text: str) -> bool:
    """Return True if a library may take a text for more than the path of one file: a pattern, or content."""
    return any(each in text for each in ("://", "_metadata", *"*?[{~|\n"))


def _includes_files(path: str) -> bool:
    """Return True if a parser of XML may read other files: a document type can name them."""
    try:
        with open(path, "rb") as stream:
            content = stream.read()
    except OSError:
        return False
    return not content.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<") or b"\0" in content or b"<!DOCTYPE" in content


def _classify_open(mode: Any, flags: int) -> tuple[bool, bool, bool]:
    """Return whether opening a file reads its old content, whether it writes, and whether it keeps the old content."""
    if flags:
        access, keeps = flags & _ACCESS, not flags & os.O_TRUNC
        return access != os.O_WRONLY and keeps, access != os.O_RDONLY or not keeps, keeps
    text = mode if isinstance(mode, str) else "r"
    return "r" in text or "a+" in text, any(letter in text for letter in "wax+"), "w" not in text


def _can_be_written(path: str, flags: int) -> bool:
    """Return True if opening for writing will succeed. If it fails, the agent learns nothing else about the file."""
    try:
        mode = os.stat(path).st_mode
    except OSError:
        folder = os.path.dirname(path)
        return os.path.isdir(folder) and os.access(folder, os.W_OK)
    if stat.S_ISDIR(mode):
        return False
    return not flags & os.O_EXCL and os.access(path, os.W_OK)


def _parse_uri_path(uri: str) -> str:
    """Return the path in a URI as SQLite accepts them: `file:/a%20b?mode=ro`, `file:a`, `file://localhost/a`."""
    path = uri[5:].partition("?")[0].partition("#")[0]
    if path.startswith("//"):
        path = path[path.find("/", 2) :]
    first, *others = path.encode("utf-8", "surrogateescape").split(b"%")
    return os.fsdecode(first + b"".join(bytes.fromhex(other[:2].decode()) + other[2:] for other in others))


def _get_program_name(command: Any) -> str:
    """Return the name of a program or library without folder and arguments."""
    words = os.fsdecode(command).split() or [""]
    return os.path.basename(words[0])


# Entries of `os.scandir`: they reveal size and type of a file without a call of `os`.


class Entries:
    """Wraps the iterator of `os.scandir`."""

    def __init__(self, real: Any, folder: str, looked: Callable[[str], None]) -> None:
        self._real = real
        self._folder = folder
        self._looked = looked
        self.close = real.close

    def __iter__(self) -> Entries:
        return self

    def __next__(self) -> RecordedDirEntry:
        return RecordedDirEntry(next(self._real), self._folder, self._looked)

    def __enter__(self) -> Entries:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class RecordedDirEntry:
    """Wraps an `os.DirEntry`. `is_dir` needs no row of its own, because listings mark folders."""

    __class__ = property(lambda _: os.DirEntry)  # for `isinstance`

    def __init__(self, real: Any, folder: str, looked: Callable[[str], None]) -> None:
        self._real = real
        self._folder = folder
        self._looked = looked
        self.name, self.path = real.name, real.path
        self.inode, self.is_dir, self.is_file, self.is_symlink = real.inode, real.is_dir, real.is_file, real.is_symlink
        self.is_junction = getattr(real, "is_junction", _return_false)

    def stat(self, *, follow_symlinks: bool = True) -> Any:
        """Like `os.stat`; recorded."""
        self._looked(os.path.join(self._folder, os.fsdecode(self.name)))
        return self._real.stat(follow_symlinks=follow_symlinks)

    def __fspath__(self) -> Any:
        return self.path

    def __repr__(self) -> str:
        return repr(self._real)


def _return_false() -> bool:
    return False


# Functions that look at files without an audit event, such as `os.stat` and `os.access`, are wrapped.

_C_PROBES = ("exists", "lexists", "isfile", "isdir", "islink")  # written in C on Windows, without calling `os.stat`


def wrap_os_functions(recorder: Recorder, events: AuditEvents) -> None:
    """Wrap the functions of `os` that look at files, so that their calls are recorded."""
    looks = _Looks(recorder)
    for name in ("stat", "lstat"):
        _replace(os, name, _Stat(getattr(os, name), recorder, looks))
    _wrap(os, "open", recorder, events.on_open_in_folder)
    _wrap(os, "access", recorder, looks.on_access)
    _wrap(os, "readlink", recorder, looks.on_probe)
    _wrap(os, "fstat", recorder, looks.on_stat)
    for name in _C_PROBES:
        if not hasattr(getattr(os.path, name), "__code__"):
            _wrap(os.path, name, recorder, looks.on_probe)
    _replace(os, "scandir", _Scan(os.scandir, recorder, looks.on_stat))


class _Looks:
    """Handlers of wrapped functions: each reports to the recorder what the call means."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    def on_stat(self, path: Any = None, *_: Any, dir_fd: int | None = None, **__: Any) -> None:
        """Note that the caller reads metadata or content, not only whether something exists."""
        if isinstance(path, int):
            full = resolve_path(path, follow=True)
            if full is not None and os.path.exists(full):  # not a pipe
                self._recorder.note_metadata(full, find_requested_metadata())
            return
        full = resolve_path(path, dir_fd)
        if full is not None and self._recorder.places.is_inside(full) is not False and not is_for_warning(full):
            self._recorder.note_read(full)
            self._recorder.note_metadata(full, find_requested_metadata())

    def on_access(self, path: Any = None, mode: int = os.F_OK, *_: Any, dir_fd: int | None = None, **__: Any) -> None:
        """Note that the caller checks what it may do with a file."""
        self.on_probe(path, dir_fd=dir_fd)
        full = resolve_path(path, dir_fd)
        if full is not None and mode != os.F_OK and is_agent_request():
            self._recorder.note_metadata(full, ("mode",))

    def on_probe(self, path: Any = None, *_: Any, dir_fd: int | None = None, **__: Any) -> None:
        """Note that the caller checks what exists at a path."""
        full = resolve_path(path, dir_fd)
        if full is not None:
            self._recorder.note_probe(full)


class _Wrapper:
    """Wraps a function of `os`. It is no Python function, which as an attribute of a class would become a method."""

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
            call_guarded(self._recorder, self._look, *arguments, **options)
        return self.__wrapped__(*arguments, **options)

    def __reduce__(self) -> str:
        return str(self.__name__)

    def __repr__(self) -> str:
        return repr(self.__wrapped__)


class _Stat(_Wrapper):
    """Wraps `os.stat` or `os.lstat`."""

    def __init__(self, function: Any, recorder: Recorder, looks: _Looks) -> None:
        super().__init__(function, "os", recorder, looks.on_stat)
        self._probe = looks.on_probe
        self._known = recorder.known_probes

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        if not quiet.depth:
            if not is_probe(sys._getframe().f_back):
                call_guarded(self._recorder, self._look, *arguments, **options)
            elif not arguments or type(arguments[0]) is not str or arguments[0] not in self._known:
                call_guarded(self._recorder, self._probe, *arguments, **options)
        return self.__wrapped__(*arguments, **options)


class _Scan(_Wrapper):
    """Wraps `os.scandir`, whose entries reveal about a file what `os.stat` does."""

    def __init__(self, function: Any, recorder: Recorder, look: Callable[..., None]) -> None:
        super().__init__(function, "os", recorder, look)

    def __call__(self, path: Any = ".") -> Any:
        found = self.__wrapped__(path)
        full = None if quiet else resolve_path("." if path is None else path, follow=True)
        if full is None or self._recorder.places.is_inside(full) is False:
            return found
        return Entries(found, full, self._on_entry_stat)

    def _on_entry_stat(self, path: str) -> None:
        call_guarded(self._recorder, self._look, path)


def _wrap(module: Any, name: str, recorder: Recorder, look: Callable[..., None]) -> None:
    _replace(module, name, _Wrapper(getattr(module, name), module.__name__, recorder, look))


def _replace(module: Any, name: str, wrapper: _Wrapper) -> None:
    function = wrapper.__wrapped__
    setattr(module, name, wrapper)
    for supporting in (os.supports_dir_fd, os.supports_fd, os.supports_follow_symlinks, os.supports_effective_ids):
        if function in supporting:
            supporting.add(wrapper)
    accessor = getattr(sys.modules.get("pathlib"), "_NormalAccessor", None)  # Python 3.10, imported before us
    if getattr(accessor, name, None) is function:
        setattr(accessor, name, wrapper)


# Imports: `importlib.import_module` raises no audit event, so a finder that finds nothing comes first.

_BUILT_IN = frozenset(sys.builtin_module_names)
_SPAWNS = ("multiprocessing.popen_spawn_posix", "multiprocessing.popen_forkserver", "multiprocessing.popen_spawn_win32")


def put_import_observer_first(recorder: Recorder) -> None:
    """Put the observer before all finders, including those added since."""
    sys.meta_path[:] = [
        ImportObserver(recorder),
        *(finder for finder in sys.meta_path if not isinstance(finder, ImportObserver)),
    ]


class ImportObserver:
    """The first finder: finds nothing, and records what is looked up."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    def find_spec(self, name: str, path: Any = None, _target: Any = None) -> None:
        call_guarded(self._recorder, self._seek, name, path)

    def invalidate_caches(self) -> None:
        """Do nothing: there is no cache."""

    def _seek(self, name: str, path: Any) -> None:
        if name in _SPAWNS:
            self._recorder.note_opaque(name)
        if path is None and (name in _BUILT_IN or _imp.is_frozen(name)):
            return
        last = name.rpartition(".")[2]
        if "," in last or "::" in last:
            self._recorder.note_opaque("import of an invalid name")
            return
        for folder in sys.path if path is None else path:
            if not isinstance(folder, str):
                continue
            if path is None:
                self._recorder.note_top_level_lookup(folder or os.getcwd())
            found = self._recorder.note_lookup(folder or os.getcwd(), last)
            if found in ("extension", "extension+module"):
                self._note_extension(folder, last)
            if found in IMPORTED:
                return

    def _note_extension(self, folder: str, name: str) -> None:
        for suffix in EXTENSION_SUFFIXES:
            path = os.path.join(folder, name + suffix)
            fingerprint = of_file(path)
            if fingerprint not in ("absent", "folder"):
                self._recorder.note_load(path, fingerprint)
                self._recorder.note_opaque(f"extension module {name}")  # of the agent: it may read files by itself
                return


# Environment variables: reading them raises no audit event.

_OVER = (0, 0)
"""Marks a call that has ended, because a new call may get the same address."""


class _Here(_local):
    """Per thread: the call that reads all variables. `dict(os.environ)` also reads each value."""

    call: tuple[int, int] | None = None


def watch_variables(recorder: Recorder) -> None:
    """Record reads of environment variables."""
    kind: Any = type(os.environ)
    original_get, original_iterate = kind.__getitem__, kind.__iter__
    known = recorder.known_variables
    here = _Here()

    def get(environ: Any, key: Any) -> Any:
        try:
            value = original_get(environ, key)
        except KeyError:
            if key not in known:
                call_guarded(recorder, read, key, None)
            raise
        if key not in known:  # frameworks read some again and again
            call_guarded(recorder, read, key, value)
        return value

    def read(key: Any, value: Any) -> None:
        name = os.fsdecode(key)
        name = name.upper() if os.name == "nt" else name
        if here.call is not None:
            if is_view() or get_call_site() == here.call:
                return
            here.call = _OVER
        recorder.note_variable(name, None if value is None else os.fsdecode(value))

    def iterate(environ: Any) -> Iterator[Any]:
        call_guarded(recorder, read_all)
        return original_iterate(environ)  # type: ignore[no-any-return]

    def read_all() -> None:
        here.call = get_call_site()
        recorder.note_variables("proxies" if is_for_proxies() else "all")

    kind.__getitem__, kind.__iter__ = get, iterate


# Installation.

_active: list[Recorder] = []


def get_recorder() -> Recorder | None:
    """Return the recorder of this process, or None if none is installed."""
    return _active[0] if _active else None


def install(recorder: Recorder) -> None:
    """Report everything that happens in this process to the recorder. Cannot be undone."""
    _active.append(recorder)
    events = AuditEvents(recorder)
    sys.addaudithook(_make_audit_hook(recorder, events.handlers()))
    instrument.native_read_listeners.append(partial(call_guarded, recorder, events.on_native_read))
    wrap_os_functions(recorder, events)
    watch_variables(recorder)
    put_import_observer_first(recorder)
    instrument.module_end_listeners.append(recorder.note_module_end)


def _make_audit_hook(
    recorder: Recorder, handlers: dict[str, Callable[..., None]]
) -> Callable[[str, tuple[Any, ...]], None]:
    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if (
            event in handlers and not quiet.depth
        ):  # frameworks raise hundreds of events that do not matter, such as `id(x)`
            call_guarded(recorder, handlers[event], *arguments)

    return hook
