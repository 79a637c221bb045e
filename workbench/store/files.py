"""Files: types, atomic writes, reads with a stamp, sessions of processes, and files that a crash leaves behind."""

from __future__ import annotations

import codecs
import contextlib
import errno
import hashlib
import io
import json
import os
import re
import secrets
import select
import stat
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path, PurePath, PurePosixPath
from typing import Any

from workbench import __version__
from workbench.store.errors import FileChanged, StoreError, make_os_error, os_errors

# Caches: what a cached result depends on besides its input


@cache
def describe_program(*sources: str) -> str:
    """Return the versions of the program, and the state of its `sources` (patterns of modules), which may be edited."""
    import pydantic  # not before it is needed: the last picture is shown without it

    folder = Path(__file__).parents[1]
    modules = sorted(module for pattern in sources for module in folder.glob(pattern))
    states = [(status.st_size, status.st_mtime_ns) for status in map(os.stat, modules)]
    return f"{__version__} {pydantic.VERSION} {states}"


# The root of a project: displayed paths are relative to it

SETTINGS_FILE = "workbench.toml"


def real_path(path: Path) -> Path:
    """Return the absolute path without symbolic links.

    Links that form a loop stay: `Path.resolve` raises for them. So do links to pipes without a name, as in /dev/stdin.
    """
    real = Path(os.path.realpath(path))
    return path.absolute() if real.name.startswith("pipe:[") and not real.exists() else real


def is_inside(path: Path, folder: Path) -> bool:
    """Return True if a path, or what it links to, is a folder without symbolic links or inside of it."""
    return path.is_relative_to(folder) or real_path(path).is_relative_to(folder)


def find_root(path: Path) -> Path:
    """Return the nearest folder upwards with `workbench.toml`, else with `.git` or `pyproject.toml`, else the folder
    given.

    `path` may be a file; then its folder counts, and that of a link before that of its file. The result is absolute.
    Raises StoreError if `path` does not exist.
    """
    path = path.absolute()
    if not path.exists():
        raise StoreError(path, "there is no such file or folder")
    folders = [real_path(path)] if path.is_dir() else [real_path(path.parent), real_path(path).parent]
    for marks in ((SETTINGS_FILE,), (".git", "pyproject.toml")):
        for candidate in (place for folder in folders for place in (folder, *folder.parents)):
            if any((candidate / mark).exists() for mark in marks):
                return candidate
    return folders[-1]


# Names of eval-set files: their suffixes, and default ids

EVAL_SET_SUFFIX = ".evalset.json"
TEST_SUFFIX = ".test.json"
EVAL_SET_SUFFIXES = (EVAL_SET_SUFFIX, TEST_SUFFIX)
"""Suffixes of eval sets among other JSON files."""
CRITERIA_FILES = ("test_config.json", "eval_config.json")
"""Names of the files of criteria of eval sets. Of two in one folder, the first name wins."""
SIDECAR_SUFFIX = ".workbench.json"
"""Suffix of the files beside eval sets, see `workbench.store.evalsets.quarantine`."""


def get_sidecar_path(eval_set: Path) -> Path:
    """Return the path of the file with what workbench knows of an eval set besides ADK's format."""
    return eval_set.with_name(eval_set.name.removesuffix(".json") + SIDECAR_SUFFIX)


@lru_cache(maxsize=64)  # asked for each case of a set
def derive_set_name(path: PurePath) -> str:
    """Return the name of the file without the suffixes of eval sets; it is a safe id, without "/"."""
    for suffix in (*EVAL_SET_SUFFIXES, ".json"):
        if path.name.endswith(suffix) and path.name != suffix:
            return path.name.removesuffix(suffix)
    return path.name


def is_dataset_name(name: str) -> bool:
    """True if a file has another suffix than `.json`; among files to score it is then a dataset."""
    return PurePath(name).suffix.lower() != ".json"


# Eval sets among `*.test.json`, which other programs use as well

_QUOTE = rb"(?:[\"']|\xe2\x80[\x98-\x9f])"
_KEY = _QUOTE + rb"(?:%b)" + _QUOTE + rb"\s*:"
_SAYS_SO = re.compile(
    _KEY % rb"eval_?cases?|eval_?set_?id|initial_?session"
    + rb"|\A(?:\xef\xbb\xbf)?\s*\[\s*\{(?=.*"
    + _KEY % rb"query"
    + rb").*"
    + _KEY % rb"expected_tool_use|expected_intermediate_agent_responses|reference",
    re.IGNORECASE | re.DOTALL,
)
"""Keys of an eval set, valid or not, also in quotes that JSON does not allow.

The older formats are lists of objects with expectations: a `query` alone may belong to GraphQL.
"""
_EXPECTED = frozenset({"expected_tool_use", "expected_intermediate_agent_responses", "reference"})
_OF_EVALS = frozenset({"data", "initial_session"})


def is_eval_set(file: Path) -> bool:
    """True if a file found in a folder is an eval set, valid or not. Only `*.test.json` needs a look at the content.

    Files that are empty, unreadable or not UTF-8 count as eval sets: an omitted set would not be noticed.
    """
    if not file.name.endswith(TEST_SUFFIX):
        return not file.name.endswith(SIDECAR_SUFFIX)
    try:
        text = b"" if find_special_kind(file) else file.read_bytes()
        text.decode()
    except (OSError, UnicodeDecodeError):
        return True
    return not text.strip() or (_SAYS_SO.search(text) is not None and not _is_foreign_list(text))


def _is_foreign_list(text: bytes) -> bool:
    """True if JSON is a list without any turn or named eval of the older formats. Broken JSON is not."""
    if not text.removeprefix(codecs.BOM_UTF8).lstrip().startswith(b"["):  # it may be large
        return False
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return False
    if not isinstance(data, list):
        return False
    objects = [item for item in data if isinstance(item, dict)]
    return not any(_OF_EVALS & item.keys() or ("query" in item and _EXPECTED & item.keys()) for item in objects)


# Sessions: the process that wrote a file, and whether it is still running

SESSION = secrets.token_hex(8)
"""Identifies this process, also against an earlier one with the same process id."""


def make_session_mark() -> dict[str, Any]:
    """Return the mark of this process, as members of a JSON object in a file that it writes."""
    return {"process": os.getpid(), "started": _get_start_time(os.getpid()), "session": SESSION}


def is_running(mark: dict[str, Any]) -> bool:
    """True if the process that wrote this mark is still running, or if the system does not say."""
    process, started = mark.get("process"), mark.get("started")
    if os.name == "nt" or process == os.getpid():  # on Windows, os.kill would interrupt the process
        return bool(mark.get("session") == SESSION)
    if not isinstance(process, int):
        return False
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:  # no permission to signal it, so it exists
        pass
    return started is None or _get_start_time(process) in (None, started)


def _get_start_time(process: int) -> str | None:
    """Return the start time of a process in clock ticks of Linux since boot; None if unknown."""
    try:
        status = Path(f"/proc/{process}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    fields = status.rpartition(")")[2].split()  # the name before it may contain any character
    return fields[19] if len(fields) > 19 else None


# Reads with a stamp, atomic writes, and the check for changes by other programs

_FOREIGN_MARKS = {
    b"\xff\xfe": "UTF-16 text",
    b"\xfe\xff": "UTF-16 text",
    b"\x1f\x8b": "gzip-compressed data",
    b"PK\x03\x04": "a zip archive",
}

Signature = tuple[int, ...]
"""File attributes that change with the content: times in nanoseconds, size, inode.

They include the ctime, because programs that copy files set the mtime.
"""


@dataclass(frozen=True, kw_only=True)
class Stamp:
    """The content of a file and its attributes at that time.

    `digest` identifies the content. The times (nanoseconds), size (bytes) and inode only avoid reading it.
    """

    digest: str
    mtime_ns: int
    size: int
    inode: int
    ctime_ns: int = 0  # recovery files of earlier versions lack it

    @property
    def signature(self) -> Signature:
        return self.mtime_ns, self.ctime_ns, self.size, self.inode


def make_stamp(data: bytes) -> Stamp:
    """Make a stamp for content that is not in a file; only its digest is meaningful."""
    return Stamp(digest=_digest(data), mtime_ns=0, size=len(data), inode=0)


def read_signature(path: Path) -> Signature:
    """Read the attributes of a file; empty if it does not exist."""
    try:
        status = path.stat()
    except OSError:
        return ()
    return _signature(status)


def is_missing(path: Path) -> bool:
    """True if there is no such file. False if the system does not say, for example without permission."""
    try:
        path.stat()
    except OSError as error:
        return isinstance(error, FileNotFoundError | NotADirectoryError)
    return False


def _signature(status: os.stat_result) -> Signature:
    return status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino


def make_relative_name(path: Path, root: Path) -> str:
    """Return the path relative to a folder with forward slashes, by which the program knows files of the project.

    Pipes in /dev, such as /dev/stdin, keep their path.
    """
    try:
        return path.relative_to(root).as_posix()
    except ValueError:
        if path.parts[1:2] == ("dev",):
            return path.as_posix()
        return Path(os.path.relpath(path, root)).as_posix()


_pipes: dict[tuple[str, int, int], bytes] = {}
"""Content of pipes, such as `<(command)` of a shell, by path and inode: a pipe can be read once."""
_LARGEST_PIPE = 1_000_000_000  # bytes: it is read into memory
_WAIT_FOR_WRITER = 2.0  # seconds, for a program that was started at the same time
_WAIT_FOR_READER = 60.0  # seconds: results that took long may not get lost


def find_special_kind(path: Path) -> str | None:
    """Return "a pipe", "a socket" or "a device" for a path that is one; None for others, also if it does not exist."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return None
    kinds = {
        "a pipe": stat.S_ISFIFO,
        "a socket": stat.S_ISSOCK,
        "a device": stat.S_ISCHR,
        "a block device": stat.S_ISBLK,
    }
    return next((kind for kind, is_kind in kinds.items() if is_kind(mode)), None)


def is_pipe(path: Path) -> bool:
    """True if a path is a pipe, such as `<(command)` of a shell or a standard input that is one."""
    return find_special_kind(path) == "a pipe"


def refuse_special_file(path: Path) -> None:
    """Raise StoreError for a pipe, device or socket: opening or reading it may never end."""
    if kind := find_special_kind(path):
        raise StoreError(path, found=kind, expected="a file")


def read_bytes(path: Path) -> tuple[bytes, Stamp]:
    """Read a file or pipe and its stamp. Raises StoreError, also for devices, sockets and pipes without a writer."""
    kind = find_special_kind(path)
    if kind not in (None, "a pipe"):
        raise StoreError(path, found=kind, expected="a file or a pipe")
    try:
        if kind is not None:
            status = path.stat()
            pipe = (str(path), status.st_dev, status.st_ino)
            data = _pipes[pipe] if pipe in _pipes else _pipes.setdefault(pipe, _read_pipe(path))
            return data, _make_stamp(data, status)
        with path.open("rb") as file:
            data = file.read()
            status = os.fstat(file.fileno())
    except OSError as error:
        raise make_os_error("read", path, error) from error
    return data, _make_stamp(data, status)


def _read_pipe(path: Path) -> bytes:
    """Read a pipe until its last writer closes it. Raises StoreError, also if no program writes to it."""
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb", buffering=0) as pipe:  # noqa: PTH123 - a descriptor
        data = bytearray(_read_first(pipe, path))
        os.set_blocking(pipe.fileno(), True)
        while piece := pipe.read(1 << 20):
            data += piece
            if len(data) > _LARGEST_PIPE:
                raise StoreError(path, f"is a pipe with more than {_LARGEST_PIPE:,} bytes: expected a file")
    return bytes(data)


def _read_first(pipe: io.FileIO, path: Path) -> bytes:
    """Read what a pipe contains at first, which may be nothing yet. Wait for its first writer."""
    poll = select.poll()
    poll.register(pipe, select.POLLIN)
    end = time.monotonic() + _WAIT_FOR_WRITER
    while (piece := pipe.read(1 << 20)) == b"":  # None: there is a writer
        if any(events & select.POLLHUP for _, events in poll.poll(0)):
            return b""  # the last writer has closed it
        if time.monotonic() > end:
            raise StoreError(path, "is a pipe that no program writes to: expected a file, or a pipe with a writer")
        time.sleep(0.01)
    return piece or b""


def write_directly(path: Path, pieces: Iterable[bytes], *, announce: Callable[[str], None]) -> None:
    """Write to a pipe or device, such as `>(command)` of a shell. Raises StoreError.

    A pipe without a reader is announced, and refused if none comes within a minute. A reader may end before it has read
    everything (`head`), as that of standard output.
    """
    with (
        os_errors("write", path),
        contextlib.suppress(BrokenPipeError),
        open(_open_for_reader(path, announce), "wb") as file,
    ):
        file.writelines(pieces)


def _open_for_reader(path: Path, announce: Callable[[str], None]) -> int:
    """Open a pipe or device for writing; wait for a program that reads a pipe."""
    start, is_announced = time.monotonic(), False
    while True:
        try:
            descriptor = os.open(path, os.O_WRONLY | getattr(os, "O_NONBLOCK", 0))
            break
        except OSError as error:
            if error.errno != errno.ENXIO or not is_pipe(path):
                raise
        waited = time.monotonic() - start
        if waited > _WAIT_FOR_READER:
            raise StoreError(path, "is a pipe that no program reads: expected a file, or a pipe with a reader")
        if waited > _WAIT_FOR_WRITER and not is_announced:
            is_announced = True
            announce(f"{path} is a pipe that no program reads; waiting {_WAIT_FOR_READER:g} s for one")
        time.sleep(0.01)
    os.set_blocking(descriptor, True)
    return descriptor


def decode_utf8(path: Path | str, data: bytes) -> str:
    """Decode bytes as UTF-8. Raises StoreError with line, column and byte offset of the first invalid byte."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        kind = next((name for mark, name in _FOREIGN_MARKS.items() if data.startswith(mark)), None)
        if kind is not None:
            raise StoreError(path, found=kind, expected="UTF-8 text") from error
        before = data[: error.start]
        line_start = before.rfind(b"\n") + 1
        raise StoreError(
            path,
            line=before.count(b"\n") + 1,
            column=len(before[line_start:].decode("utf-8")) + 1,
            found=f"the byte 0x{data[error.start]:02x} at offset {error.start}",
            expected="UTF-8 text",
        ) from error


def has_changed(path: Path, stamp: Stamp) -> bool:
    """True if the file is gone or its content differs from `stamp`. Reads it only if the attributes differ."""
    try:
        status = path.stat()
    except OSError:
        return True
    if _signature(status) == stamp.signature:
        return False
    return status.st_size != stamp.size or read_bytes(path)[1].digest != stamp.digest


PRIVATE = 0o600
"""The mode of files that only the user may read: they contain messages of agents and users."""


def write_atomic(path: Path, data: bytes, *, expect: Stamp | None = None, mode: int = 0o666) -> Stamp:
    """Replace the content of a file, or create it, so that readers and crashes see either the old or the new content.

    The data are written to a temporary file in the same folder, flushed to disk and renamed. The mode of the old file
    is kept (a new one gets `mode`, less the umask), and symbolic links are followed. With `expect`, FileChanged is
    raised if the content differs from that stamp. Raises StoreError, also for pipes and devices. If an error is raised,
    the old content remains.
    """
    refuse_special_file(path)
    real = _find_written_path(path)
    if expect is not None and not real.parent.is_dir():
        raise FileChanged(path, ours=data, theirs=None)

    def rename(temporary: str) -> None:
        if expect is not None:
            _refuse_if_changed(path, data, expect)
        os.replace(temporary, real)  # noqa: PTH105 - `temporary` is a name of our own

    return _make_stamp(data, _write(path, real, [data], rename, mode=mode))


def write_in_pieces(path: Path, pieces: Iterable[bytes]) -> None:
    """Do the same as `write_atomic` with content that does not fit into memory."""
    refuse_special_file(path)
    real = _find_written_path(path)
    _write(path, real, pieces, lambda temporary: os.replace(temporary, real))  # noqa: PTH105


def write_new(path: Path, data: bytes) -> Stamp:
    """Create a file, completely or not at all. Raises StoreError, also if it exists."""
    if path.exists() or path.is_symlink():
        raise StoreError(path, "cannot create it: it already exists")

    def link(temporary: str) -> None:
        try:
            os.link(temporary, path)  # unlike a rename, this never replaces a file that was created meanwhile
        except FileExistsError:
            raise
        except OSError:  # a file system without hard links
            os.replace(temporary, path)  # noqa: PTH105

    return _make_stamp(data, _write(path, path, [data], link))


_SMALL_FILE = 64 * 1024  # bytes


def check_writable(folder: Path) -> None:
    """Write a small file in a folder, and remove it. Raises StoreError."""
    temporary = folder / _temporary_name("check")
    with os_errors("write", folder):
        try:
            with temporary.open("xb") as file:
                file.write(bytes(_SMALL_FILE))
                file.flush()
                os.fsync(file.fileno())
        finally:
            temporary.unlink(missing_ok=True)


_TEMPORARY = re.compile(
    r"\..*\.(?P<process>\d+)-(?P<started>\d*)-(?P<session>[0-9a-f]{16})-[0-9a-f]{12}\.workbench\.tmp", re.DOTALL
)


def _temporary_name(name: str) -> str:
    """Make an unused name that identifies the writing process: see `remove_leftovers`."""
    mark = make_session_mark()
    writer = f"{mark['process']}-{mark['started'] or ''}-{mark['session']}"
    return f".{name[:40]}.{writer}-{secrets.token_hex(6)}.workbench.tmp"  # at most 255 bytes, 4 for a character


def remove_leftovers(folders: Iterable[Path]) -> None:
    """Remove temporary files that killed processes of this program left directly in these folders.

    Files of running processes stay, and so do files that cannot be removed.
    """
    for folder in folders:
        with contextlib.suppress(OSError), os.scandir(folder) as entries:
            for entry in entries:
                found = _TEMPORARY.fullmatch(entry.name)
                if found is not None and entry.is_file(follow_symlinks=False) and not is_running(_read_writer(found)):
                    with contextlib.suppress(OSError):
                        os.unlink(entry.path)  # noqa: PTH108


def _read_writer(name: re.Match[str]) -> dict[str, object]:
    """Read the mark of the process that wrote a temporary file."""
    return {"process": int(name["process"]), "started": name["started"] or None, "session": name["session"]}


def make_folder(path: Path) -> None:
    """Create a folder and its parents if they are missing. Raises StoreError."""
    with os_errors("create", path):
        path.mkdir(parents=True, exist_ok=True)


def make_project_name(root: Path) -> str:
    """Return a name for files about a project in the user's state folder: the same for the same folder."""
    return hashlib.sha256(str(real_path(root)).encode("utf-8", "surrogateescape")).hexdigest()[:16]


def make_private_folder(path: Path) -> None:
    """Create a folder that only the user may enter, or restrict an existing one and its files.

    Subfolders and files of other users are left as they are. Raises StoreError.
    """
    make_folder(path)
    with contextlib.suppress(OSError):  # another user's, or a file system without modes
        _restrict_mode(path, 0o700)
        with os.scandir(path) as entries:
            for entry in entries:
                if entry.is_file(follow_symlinks=False):
                    with contextlib.suppress(OSError):
                        _restrict_mode(Path(entry.path), PRIVATE)


def _restrict_mode(path: Path, mode: int) -> None:
    if path.stat().st_mode & 0o077:
        path.chmod(mode)


def _write(
    path: Path, real: Path, pieces: Iterable[bytes], publish: Callable[[str], None], *, mode: int = 0o666
) -> os.stat_result:
    if real.is_dir():
        raise StoreError(path, "cannot write it: it is a folder, expected a file")
    temporary = str(real.with_name(_temporary_name(real.name)))
    with os_errors("write", path):
        try:
            status = _write_temporary(temporary, real, pieces, mode)
            publish(temporary)
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary)  # noqa: PTH108
        _flush_folder(real.parent)
    return _stat_after_rename(real, status)


def _stat_after_rename(path: Path, status: os.stat_result) -> os.stat_result:
    """Return the current status, because a rename changes the ctime; `status` if another program wrote the file."""
    with contextlib.suppress(OSError):
        now = path.stat()
        if (now.st_mtime_ns, now.st_size, now.st_ino) == (status.st_mtime_ns, status.st_size, status.st_ino):
            return now
    return status


def _write_temporary(temporary: str, real: Path, pieces: Iterable[bytes], mode: int) -> os.stat_result:
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(descriptor, "wb") as file:
        _copy_owner_and_mode(file.fileno(), real)
        file.writelines(pieces)
        file.flush()
        os.fsync(file.fileno())
        return os.fstat(file.fileno())


def _copy_owner_and_mode(descriptor: int, real: Path) -> None:
    try:
        old = real.stat()
    except FileNotFoundError:
        return  # a new file: the umask sets its mode
    if hasattr(os, "fchown"):
        with contextlib.suppress(PermissionError):  # only root may change the owner
            os.fchown(descriptor, old.st_uid, old.st_gid)
    if hasattr(os, "fchmod"):
        os.fchmod(descriptor, old.st_mode & 0o7777)


def _refuse_if_changed(path: Path, data: bytes, expect: Stamp) -> None:
    """Compare content, not times: a second write may be within one tick of the clock."""
    try:
        theirs = path.read_bytes()
    except FileNotFoundError:
        raise FileChanged(path, ours=data, theirs=None) from None
    if _digest(theirs) != expect.digest:
        raise FileChanged(path, ours=data, theirs=theirs)


def _find_written_path(path: Path) -> Path:
    try:
        return path.resolve()
    except (OSError, RuntimeError) as error:  # RuntimeError: a circle of links, before Python 3.13
        raise StoreError(path, "cannot write it: its symbolic links form a loop") from error


def _flush_folder(folder: Path) -> None:
    """Make the rename durable if the system can (not on Windows, nor on some network file systems)."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _make_stamp(data: bytes, status: os.stat_result) -> Stamp:
    return Stamp(
        digest=_digest(data),
        mtime_ns=status.st_mtime_ns,
        size=len(data),
        inode=status.st_ino,
        ctime_ns=status.st_ctime_ns,
    )


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


# Eval-set files: created, removed and moved inside one folder, never over another file


@dataclass(frozen=True, kw_only=True)
class FileSnapshot:
    """The state of a file: its content, permission bits (None: the system's default), and target if it is a link."""

    data: bytes
    mode: int | None = None
    link: str | None = None


class SetFiles:
    """The eval-set files below a folder. Names are relative to it, with forward slashes."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def get_path(self, relative: str) -> Path:
        """Return the path of a set. Raises StoreError for an invalid name."""
        path = self._root / relative
        name = PurePosixPath(relative)
        if not relative.endswith(EVAL_SET_SUFFIXES) or name.name in EVAL_SET_SUFFIXES or "\0" in relative:
            raise StoreError(path, found=f"the name {relative!r}", expected=f"a name that ends in {EVAL_SET_SUFFIX}")
        if name.is_absolute() or ".." in name.parts or not self._is_inside(path.parent):
            raise StoreError(path, "it would be outside of the project; eval sets can be created and moved only inside")
        return path

    def create(self, relative: str, kept: FileSnapshot) -> None:
        """Create a file and the folders above it. Raises StoreError, also if it exists."""
        path = self.get_path(relative)
        make_folder(path.parent)
        if kept.link is not None:
            with os_errors("create", path):
                path.symlink_to(kept.link)
            return
        write_new(path, kept.data)
        if kept.mode is not None:
            with contextlib.suppress(OSError):  # the content is complete, the mode is less important
                path.chmod(kept.mode)

    def remove(self, relative: str, *, expect: bytes | None = None) -> FileSnapshot:
        """Remove a file and return its state. Raises StoreError; FileChanged if the content is not `expect`."""
        path = self.get_path(relative)
        data = read_bytes(path)[0]
        if expect is not None and data != expect:
            raise FileChanged(path, ours=expect, theirs=data)
        with os_errors("delete", path):
            link = str(path.readlink()) if path.is_symlink() else None
            kept = FileSnapshot(data=data, mode=path.stat().st_mode & 0o7777, link=link)
            path.unlink()
        return kept

    def move(self, old: str, new: str) -> None:
        """Move a file to an unused name, and the file beside it. Raises StoreError; then nothing is moved."""
        source, target = self.get_path(old), self.get_path(new)
        self._move(source, target)
        sidecar = get_sidecar_path(source)
        if not sidecar.exists() and not sidecar.is_symlink():
            return
        try:
            self._move(sidecar, get_sidecar_path(target))
        except StoreError:
            self._move(target, source)
            raise

    def _move(self, source: Path, target: Path) -> None:
        if target.exists() or target.is_symlink():
            raise StoreError(target, "cannot create it: it already exists")
        make_folder(target.parent)
        try:
            os.link(source, target, follow_symlinks=False)  # never replaces a file that was created meanwhile
        except FileExistsError as error:
            raise make_os_error("create", target, error) from error
        except FileNotFoundError as error:
            raise make_os_error("read", source, error) from error
        except OSError:  # a file system without hard links
            self._rename(source, target)
            return
        try:
            source.unlink()
        except OSError as error:
            target.unlink()
            raise make_os_error("delete", source, error) from error

    def _rename(self, source: Path, target: Path) -> None:
        with os_errors("create", target):
            source.rename(target)

    def _is_inside(self, folder: Path) -> bool:
        """True if a folder, existing or not, is inside ours after links are resolved."""
        try:
            return folder.resolve().is_relative_to(self._root.resolve())
        except (OSError, RuntimeError):  # RuntimeError: links in a circle, before Python 3.13
            return False
