"""Notices changes of files: by events of the system, or by comparing all files."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import select
import struct
import sys
import threading
import time
from collections.abc import AsyncGenerator, Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Literal, Protocol, Self

from workbench.agents.worker.recording import fingerprints
from workbench.watch.folder_scanner import Folders, Scanner, ScanStopped

# Events of the file system, one watch for each folder of a list and none for its subfolders.

STEP = 0.020  # seconds without an event after which a batch ends
_BATCH_SECONDS = 0.060  # maximum for one batch
_SPARE = 0.5


class EventsUnavailable(Exception):
    """There are no file events; the message says why."""


class FolderVanished(Exception):
    """A folder of the list does not exist any more."""


class EventsLost(Exception):
    """Events were lost."""


class Wakeup:
    """Ends the waiting of one thread, at once or as soon as it begins. The other methods are safe from any thread."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self._lock = threading.Lock()
        self._pipe: tuple[int, int] | None = None  # holds a byte while the event is set

    def set(self) -> None:
        """End the waiting."""
        with self._lock:
            if self._pipe is not None and not self._event.is_set():
                os.write(self._pipe[1], b"!")
            self._event.set()

    def clear(self) -> None:
        """Allow waiting again."""
        with self._lock:
            if self._pipe is not None and self._event.is_set():
                os.read(self._pipe[0], 1)
            self._event.clear()

    def is_set(self) -> bool:
        """Return True if waiting ends at once."""
        return self._event.is_set()

    def wait(self, seconds: float) -> None:
        """Wait for `set`."""
        self._event.wait(seconds)

    def fileno(self) -> int:
        """Return a descriptor that can be read while the event is set. It is open until `close`."""
        with self._lock:
            if self._pipe is None:
                self._pipe = os.pipe()
                if self._event.is_set():
                    os.write(self._pipe[1], b"!")
            return self._pipe[0]

    def close(self) -> None:
        """Close the descriptors."""
        with self._lock:
            pipe, self._pipe = self._pipe, None
        for descriptor in pipe or ():
            os.close(descriptor)


class FolderListener(Protocol):
    """Receives the events of some folders from now on."""

    def wait(self, seconds: float, wakeup: Wakeup) -> frozenset[str]:
        """Return the paths with events; empty after `seconds` without one, or at a wakeup.

        Events in the moment of a wakeup may be lost: scan everything afterwards. Raises EventsLost.
        """

    def close(self) -> None:
        """Stop listening."""


def listen(folders: Iterable[str]) -> FolderListener:
    """Start to listen. Raises `EventsUnavailable` or `FolderVanished`."""
    return InotifyListener(folders) if sys.platform == "linux" else WatchfilesListener(folders)


# inotify(7): MODIFY, ATTRIB, CLOSE_WRITE, MOVED_FROM, MOVED_TO, CREATE, DELETE, DELETE_SELF, MOVE_SELF, ONLYDIR
_CHANGES = 0x2 | 0x4 | 0x8 | 0x40 | 0x80 | 0x100 | 0x200 | 0x400 | 0x800 | 0x0100_0000
_OVERFLOW = 0x4000
_EVENT = struct.Struct("iIII")  # of a watched folder: its number; mask, cookie, length of the name that follows
_READ_BYTES = 65_536


class InotifyListener:
    """Receives events of Linux, and sleeps until there is one; `watchfiles` looks for events all the time."""

    def __init__(self, folders: Iterable[str]) -> None:
        """Raises `EventsUnavailable` or `FolderVanished`."""
        self._folders: dict[int, str] = {}
        self._inotify, denied = -1, 0
        try:
            import ctypes

            system = ctypes.CDLL(None, use_errno=True)
            self._inotify = system.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
            _raise_error(0 if self._inotify >= 0 else ctypes.get_errno())
            for folder in folders:
                number = system.inotify_add_watch(self._inotify, os.fsencode(folder), _CHANGES)
                if number < 0 and ctypes.get_errno() in (errno.EACCES, errno.EPERM):
                    denied = ctypes.get_errno()
                    continue
                _raise_error(0 if number >= 0 else ctypes.get_errno())
                self._folders[number] = folder
            _raise_error(0 if self._folders else denied)
        except (FileNotFoundError, NotADirectoryError) as error:
            self.close()
            raise FolderVanished(str(error)) from None
        except (ImportError, AttributeError, OSError) as error:  # or there is no such library
            self.close()
            raise EventsUnavailable(_explain_failure(error)) from None

    def wait(self, seconds: float, wakeup: Wakeup) -> frozenset[str]:
        """See `FolderListener.wait`; no event is lost at a wakeup."""
        poll = select.poll()
        poll.register(self._inotify, select.POLLIN)
        poll.register(wakeup.fileno(), select.POLLIN)
        poll.poll(min(seconds, 3600) * 1000)
        poll.unregister(wakeup.fileno())
        paths = self._read()
        until = time.monotonic() + _BATCH_SECONDS
        while paths and (left := until - time.monotonic()) > 0 and poll.poll(min(STEP, left) * 1000):
            paths |= self._read()
        return frozenset(paths)

    def close(self) -> None:
        """Stop listening."""
        if self._inotify >= 0:
            os.close(self._inotify)
            self._inotify = -1

    def _read(self) -> set[str]:
        """Return the paths of waiting events, of many at most."""
        try:
            events = os.read(self._inotify, _READ_BYTES)
        except BlockingIOError:
            return set()
        paths: set[str] = set()
        at = 0
        while at < len(events):
            number, mask, _, length = _EVENT.unpack_from(events, at)
            at += _EVENT.size + length
            if mask & _OVERFLOW:
                raise EventsLost("more at once than the system stores (fs.inotify.max_queued_events)")
            folder, name = self._folders.get(number), events[at - length : at].rstrip(b"\0")
            if folder is not None:
                paths.add(os.path.join(folder, os.fsdecode(name)) if name else folder)
        return paths


class WatchfilesListener:
    """Receives events of other systems, from the library `watchfiles`."""

    def __init__(self, folders: Iterable[str]) -> None:
        """Raises `EventsUnavailable` or `FolderVanished`."""
        folders = list(folders)
        try:
            # Private by its name, but documented ("Rust backend direct usage"). `watchfiles.watch` would start to
            # listen too late, and would end when it has to stop waiting.
            from watchfiles._rust_notify import RustNotify
        except ImportError as error:
            raise EventsUnavailable(f"watchfiles cannot be loaded: {error}") from None

        def start(*, ignore_permission_denied: bool) -> RustNotify:
            # No debug output, no polling (every 300 ms), not recursive.
            return RustNotify(folders, False, False, 300, False, ignore_permission_denied)

        try:
            try:
                self._notify = start(ignore_permission_denied=False)
            except PermissionError:  # ignoring these also ignores the limit of the system
                self._notify = start(ignore_permission_denied=True)
        except FileNotFoundError as error:
            raise FolderVanished(str(error)) from None
        except (OSError, RuntimeError, TypeError, UnicodeEncodeError) as error:
            raise EventsUnavailable(_explain_failure(error)) from None

    def wait(self, seconds: float, wakeup: Wakeup) -> frozenset[str]:
        """See `FolderListener.wait`."""
        # The timeout of the library uses the wall clock, which may jump; the deadline does not.
        deadline = _Deadline(wakeup, time.monotonic() + seconds + _SPARE)
        try:
            events = self._notify.watch(
                int(_BATCH_SECONDS * 1000), int(STEP * 1000), max(1, int(seconds * 1000)), deadline
            )
        except RuntimeError as error:
            raise EventsLost(str(error)) from None
        return frozenset() if isinstance(events, str) else frozenset(path for _, path in events)

    def close(self) -> None:
        """Stop listening."""
        self._notify.close()


class _Deadline:
    def __init__(self, wakeup: Wakeup, at: float) -> None:
        self._wakeup = wakeup
        self._at = at

    def is_set(self) -> bool:
        return self._wakeup.is_set() or time.monotonic() > self._at


def _raise_error(number: int) -> None:
    if number:
        raise OSError(number, os.strerror(number))


def _explain_failure(error: Exception) -> str:
    # inotify: ENOSPC for too many watches, EMFILE for too many instances. Not all errors have a number.
    limits = ("limit", "os error 24", "os error 28")
    if any(sign in str(error) for sign in limits) or getattr(error, "errno", None) in (errno.EMFILE, errno.ENOSPC):
        return "the system's limit of watched folders is reached (fs.inotify.max_user_watches, max_user_instances)"
    return f"the system sends no events: {error}"


# Network mounts: the system sends no events for what other machines change.

# Shares of other machines and of the host of a virtual machine; WSL mounts the drives of Windows with `9p`.
_SILENT = {
    *("9p", "afs", "beegfs", "ceph", "cifs", "drvfs", "fakeowner", "glusterfs", "gpfs", "grpcfuse", "lustre", "ncpfs"),
    *("nfs", "nfs4", "osxfs", "prl_fs", "smb2", "smb3", "smbfs", "vboxsf", "virtiofs", "vmhgfs"),
}


def find_silent_devices() -> dict[int, str]:
    """Return the device numbers of file systems that send no events for remote changes, with their types."""
    found: dict[int, str] = {}
    if sys.platform != "linux":
        return found
    try:
        mounts = Path("/proc/self/mountinfo").read_text(errors="replace")
    except OSError:
        return found
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        fields, kind = before.split(), after.partition(" ")[0]
        if len(fields) > 4 and (kind in _SILENT or kind.startswith("fuse.")):
            major, _, minor = fields[2].partition(":")
            found[os.makedev(int(major), int(minor))] = kind
    return found


def is_share(path: str) -> bool:
    """Return True for a path on a share of another machine, as Windows writes it."""
    return path.startswith("\\\\")


# The observer, on a thread of its own: it uses events where they arrive and compares files where they do not.

_DEBOUNCE_SECONDS = 0.4  # seconds; one save takes one step, a burst may take all of them
_BURST = 20  # paths; more than any editor writes for one save
_LOCKED = 5.0  # seconds; an older lock was left behind, or git waits for a commit message
_UNLOCKED = 0.05  # seconds; one git command often runs another one
_INSTALLED = 1.0  # seconds without a change after which an installation has ended
_CHECK = 0.15  # seconds from an event to a scan, because events do get lost
_AGAIN = 30.0  # seconds until events are tried again after a failure
_LOSSES = 3  # of events within that time after which they are not used for as long
_GROWING = 1.0  # seconds for new folders to appear before a change is reported
_QUIET = 60.0  # seconds without a change after which scans become rarer


@dataclass(frozen=True)
class FileChange:
    """Watched files or folders may have changed."""

    paths: frozenset[Path]
    """Changed files and folders, by each path that leads there.

    A folder means that it, or the list of names in it, changed; not the content of its files."""
    everything: bool
    """True: anything may have changed, and `paths` is empty."""
    at: float
    """Monotonic time of the first event."""

    @property
    def last_write_time(self) -> float | None:
        """The time of the last write, by the clock of the disk; None if unknown."""
        times = []
        for path in self.paths:
            with contextlib.suppress(OSError):  # removed: its folder is in the change too
                times.append(path.lstat().st_ctime)
        return max(times, default=None)

    def find_removed(self) -> frozenset[Path]:
        """Return the paths that no longer exist."""
        return frozenset(path for path in self.paths if not path.exists())

    def exclude_paths(self, is_left_out: Callable[[Path], bool]) -> FileChange:
        """Return the change without some paths."""
        return FileChange(frozenset(path for path in self.paths if not is_left_out(path)), self.everything, self.at)

    def merge(self, later: FileChange) -> FileChange:
        """Return both changes as one."""
        everything = self.everything or later.everything
        return FileChange(frozenset() if everything else self.paths | later.paths, everything, min(self.at, later.at))


@dataclass(frozen=True)
class WatchStatus:
    """What a watcher watches, and how."""

    files: int
    folders: int
    mode: Literal["events", "scanning"]
    reason: str
    """Why files are compared instead of using events, or what is not watched; empty if all is well."""


class Observer:
    """Observes folders until `stop`. `run` belongs on a thread of its own; other methods are safe from any thread."""

    def __init__(
        self,
        folders: Folders,
        *,
        scan: str,
        report: Callable[[FileChange], None],
        report_status: Callable[[WatchStatus, int], None],
    ) -> None:
        """`scan` says why events are not used, or is empty. `report_status` also gets the number of requests done."""
        self._scan = scan
        self._report = report
        self._report_status = report_status
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._wakeup = Wakeup()
        self._asked: list[Folders] = []
        self._taken_in = 0
        self._scanner = Scanner(folders, self._stop.is_set)
        self._listener: FolderListener | None = None
        self._listening: dict[str, tuple[int, int]] = {}
        self._no_events = ""
        self._lost: list[float] = []
        self._try_again = 0.0
        self._silence = ""
        self._paths: set[str] = set()
        self._everything = False
        self._first = 0.0
        self._scan_due = 0.0
        self._last_scan = 0.0
        self._last_noted = time.monotonic()
        self._cost = 0.0  # of one look, in seconds
        self._listen_anew = False
        self._held_since: float | None = None
        self._unlocked_since: float | None = None
        self._left_behind: set[tuple[str, int, int]] = set()
        self._published: WatchStatus | None = None
        self._is_incomplete = False  # the installation
        self.is_installing = False
        """Whether packages are being installed; changes are reported afterwards."""

    def stop(self) -> None:
        """Make `run` return soon."""
        self._stop.set()
        self._wakeup.set()

    def request_folders(self, folders: Folders) -> None:
        """Watch these folders from now on."""
        with self._lock:
            self._asked.append(folders)
            self._wakeup.set()

    def run(self) -> None:
        """Observe until `stop`."""
        try:
            self._scanner.start()
            self._scan_all(None)
            self._publish_status()
            while not self._stop.is_set():
                self._step()
        except ScanStopped:
            pass
        finally:
            if self._listener is not None:
                self._listener.close()
            self._wakeup.close()

    def _step(self) -> None:
        began = time.monotonic()
        self._collect_events(began)
        if self._is_locked():
            return
        with self._lock:
            asked, self._asked = self._asked, []
        if asked or time.monotonic() >= self._scan_due:
            self._scan_all(asked[-1] if asked else None)
            self._taken_in += len(asked)
            self._publish_status(always=bool(asked))
            if self._is_locked():
                return
        self.is_installing = self._is_installing()
        if (self._paths or self._everything) and not self.is_installing:
            self._publish_change()

    def _publish_change(self) -> None:
        paths = frozenset() if self._everything else frozenset(map(Path, self._paths))
        change = FileChange(paths, self._everything, self._first)
        self._paths, self._everything = set(), False
        self._publish_status()
        self._report(change)

    def _collect_events(self, began: float) -> None:
        """Wait for events and apply them; return early when a scan is due."""
        until = began + _DEBOUNCE_SECONDS
        while not self._stop.is_set():
            paths = self._wait()
            before = len(self._paths)
            for path in paths:
                seen = self._scanner.apply_event(path)
                if not seen.is_unrelated:
                    self._schedule_check()
                self._note(seen.paths, max(began, time.monotonic() - 2 * STEP))
                if seen.needs_scan:
                    self._scan_due = 0.0
                    self._listen_anew = self._listen_anew or path in self._listening
            if len(self._paths) - before <= _BURST or time.monotonic() > until:
                return

    def _wait(self) -> frozenset[str]:
        self._wakeup.clear()  # before a look at what it was for
        due = max(0.001, self._scan_due - time.monotonic())
        if self._held_since is not None or self._paths:
            due = STEP
        elif self._asked or self._stop.is_set():
            due = 0.001
        if self._listener is None:
            self._wakeup.wait(due)
            return frozenset()
        try:
            # A request also ends the waiting: the scan that follows finds changes whose events are lost here.
            return self._listener.wait(due, self._wakeup)
        except (EventsLost, OSError) as reason:  # also if there are no more descriptors
            self._handle_lost_events(str(reason))
            return frozenset()

    def _handle_lost_events(self, reason: str) -> None:
        self._note_everything()
        self._listen_anew = True
        now = time.monotonic()
        self._lost = [at for at in self._lost if now - at < _AGAIN] + [now]
        if len(self._lost) > _LOSSES and self._listener is not None:
            self._listener.close()
            self._listener, self._listening, self._no_events = None, {}, f"events were lost: {reason}"
            self._try_again = now + _AGAIN

    def _scan_all(self, folders: Folders | None) -> None:
        """Scan all folders and listen to them; repeat while new folders appear that had no listener."""
        self._scan_once(folders)
        until = time.monotonic() + _GROWING
        settled = False
        while not (settled := not self._listen()) and time.monotonic() < until:
            self._scan_once(None)
        self._silence = self._find_silent_folder()
        self._last_scan = time.monotonic()
        self._scan_due = self._last_scan + (self._compute_interval() if settled else _CHECK)

    def _scan_once(self, folders: Folders | None) -> None:
        began, worked = time.monotonic(), time.thread_time()
        missing = self._scanner.picture.missing
        self._note(self._scanner.scan(folders), began)
        if missing != self._scanner.picture.missing:
            self._note_everything()
        # Waiting for a slow drive costs this machine nothing, but may cost the machine that owns it.
        self._cost = max(time.thread_time() - worked, (time.monotonic() - began) / 10)

    def _compute_interval(self) -> float:
        slower = 3 if time.monotonic() - self._last_noted > _QUIET else 1
        if self._listener is not None and not self._silence:
            return slower * max(2.0, 100 * self._cost)
        return slower * min(5.0, max(0.1, 20 * self._cost))

    def _schedule_check(self) -> None:
        self._scan_due = min(self._scan_due, max(time.monotonic() + _CHECK, self._last_scan + 20 * self._cost))

    def _listen(self) -> bool:
        """Listen to the present folders. Return True if the listener is new."""
        if self._scan:
            return False
        folders = {f.path: f.identity for f in self._scanner.picture.folders.values() if f.readable}
        if folders == self._listening and not self._listen_anew:
            return False
        now = time.monotonic()
        if self._listener is None and self._no_events and now < self._try_again:
            return False
        before = self._listener
        self._listen_anew = False
        try:
            self._listener = listen(folders)
            self._listening, self._no_events = folders, ""
        except FolderVanished:
            self._listen_anew = True
            return True
        except EventsUnavailable as reason:
            self._listener, self._listening = None, {}
            if before is not None:  # both listeners together may exceed the limit of the system
                self._drain(before)
                return True
            self._no_events, self._try_again = str(reason), now + _AGAIN
        if before is not None:
            self._drain(before)
        return True

    def _drain(self, before: FolderListener) -> None:
        try:
            for path in before.wait(0.001, self._wakeup):
                self._note(self._scanner.apply_event(path).paths, time.monotonic())
        except EventsLost:
            self._note_everything()
        finally:
            before.close()

    def _is_locked(self) -> bool:
        """Return True while git changes files, so that the state is neither the old nor the new one."""
        now = time.monotonic()
        if not (self._paths or self._everything or self._held_since is not None or now >= self._scan_due):
            return False
        lock = next((lock for lock in map(_identify, self._scanner.picture.locks) if lock), None)
        if lock is None or lock in self._left_behind:
            if self._held_since is None:
                return False
            self._unlocked_since = self._unlocked_since or now
            if now - self._unlocked_since < _UNLOCKED:
                return True
        else:
            self._held_since = self._held_since or now
            self._unlocked_since = None
            if now - self._held_since < _LOCKED:
                return True
            self._left_behind = {lock}
        self._held_since = self._unlocked_since = None
        self._scan_due = 0.0
        return False

    def _is_installing(self) -> bool:
        """Return True while packages are being installed, so that the state is neither the old nor the new one."""
        folders = [path for path in self._paths if fingerprints.is_library_folder(path)]
        if folders and time.monotonic() - self._last_noted < _INSTALLED:
            return True
        was_incomplete = self._is_incomplete
        self._is_incomplete = any(map(fingerprints.is_being_installed, folders))
        if was_incomplete and not self._is_incomplete:
            self._scan_due = 0.0  # the files that complete it send no event
            return True
        return self._is_incomplete

    def _note(self, paths: frozenset[str], at: float) -> None:
        if paths and not self._paths and not self._everything:
            self._first = at
        if paths:
            self._last_noted = at
        self._paths |= paths

    def _note_everything(self) -> None:
        if not self._paths and not self._everything:
            self._first = time.monotonic()
        self._everything = True
        self._scan_due = 0.0

    def _reason_to_scan(self) -> str:
        return self._scan or self._no_events or self._silence

    def _find_silent_folder(self) -> str:
        silent = find_silent_devices()
        for folder in self._scanner.picture.folders.values():
            if folder.identity[0] in silent:
                return f"{silent[folder.identity[0]]} sends no events: {folder.path}"
            if is_share(folder.path):
                return f"a share sends no events: {folder.path}"
        return ""

    def _publish_status(self, *, always: bool = False) -> None:
        files, count = self._scanner.picture.count()
        why = self._reason_to_scan()
        reason = why
        if self._scanner.picture.missing:
            reason = f"missing: {', '.join(sorted(self._scanner.picture.missing))}"
        elif not why and self._scanner.picture.too_much:
            reason = f"too many folders behind links, see {min(self._scanner.picture.too_much)}"
        status = WatchStatus(files, count, "scanning" if why else "events", reason)
        if always or status != self._published:
            self._published = status
            self._report_status(status, self._taken_in)


def _identify(lock: str) -> tuple[str, int, int] | None:
    try:
        there = os.stat(lock)
    except OSError:
        return None
    return (lock, there.st_ino, there.st_mtime_ns)


# The watcher: reports every change of a project soon after the save.

SCAN_VARIABLE = "WORKBENCH_WATCH"
"""With the value `scan`, this environment variable requests scans, for systems that lose events silently."""

_PATIENCE = 5.0  # seconds for the thread to end; a network drive may hang in the middle of a scan


class Watcher:
    """Watches folders from `start` to `stop`, or as a context manager."""

    def __init__(self, folders: Folders, *, scan: bool = False) -> None:
        """Nothing starts yet. With `scan`, files are compared regularly and no events are used."""
        self._folders = folders
        self._observer = Observer(
            folders, scan=explain_scanning(scan), report=self.send_change, report_status=self._send_status
        )
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._status: WatchStatus | None = None
        self._pending: FileChange | None = None
        self._news = asyncio.Event()
        self._progress = asyncio.Event()
        self._ended = asyncio.Event()
        self._stopped = False
        self._failure: BaseException | None = None
        self._asked = 0
        self._taken_in = 0
        self.on_mode_changed: Callable[[WatchStatus], None] = lambda _: None
        """Called if events become unavailable, or available again."""

    @property
    def status(self) -> WatchStatus:
        """The present status. Needs a watcher that was started."""
        if self._status is None:
            raise RuntimeError("the watcher was not started")
        return self._status

    @property
    def is_installing(self) -> bool:
        """Whether packages are being installed; a change is reported afterwards."""
        return self._observer.is_installing

    async def start(self) -> WatchStatus:
        """Start to watch. Every change after the return is reported, and most changes before it."""
        if self._thread is None:
            self._loop = asyncio.get_running_loop()
            self._thread = threading.Thread(target=self._run, name="watcher", daemon=True)
            self._thread.start()
        await self._await_condition(lambda: self._status is not None)
        return self.status

    async def stop(self) -> None:
        """Stop soon, and end the thread. Changes that are not reported yet are dropped."""
        self._stopped = True
        self._news.set()
        self._observer.stop()
        thread = self._thread
        if thread is None or self._loop is None:
            return
        # Not joined on another thread, which would have to end too.
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._ended.wait(), _PATIENCE)
            thread.join()

    async def __aenter__(self) -> Self:
        try:
            await self.start()
        except BaseException:  # also if the start is cancelled, whose thread would continue
            await self.stop()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def add(self, paths: Iterable[Path], *, listed: Iterable[Path] = ()) -> None:
        """Also watch these files and folders, and the names in `listed` folders, wherever they are.

        They need not exist. Every change after the return is reported; read the files afterwards for earlier ones.
        """
        folders = self._folders.add_used(paths, listed=listed)
        if folders != self._folders:
            await self._replace_folders(folders)

    async def replace(self, folders: Folders) -> None:
        """Watch these folders instead of those of the constructor, and still all added paths."""
        folders = folders.add_used(self._folders.used, listed=self._folders.listed)
        if folders != self._folders:
            await self._replace_folders(folders)

    async def changes(self) -> AsyncGenerator[FileChange, None]:
        """Yield changes until `stop`; several are merged if the consumer is slow.

        Starts the watcher if necessary, and then stops it at the end. Raises errors of the thread.
        """
        is_owner = self._thread is None
        await self.start()
        try:
            while not self._stopped:
                self._news.clear()
                if self._pending is not None:
                    change, self._pending = self._pending, None
                    yield change
                    continue
                if self._failure is not None:
                    raise self._failure
                await self._news.wait()
        finally:
            if is_owner:
                await self.stop()

    async def _replace_folders(self, folders: Folders) -> None:
        self._folders = folders
        self._observer.request_folders(folders)
        self._asked += 1
        if self._thread is not None:
            number = self._asked
            await self._await_condition(lambda: self._taken_in >= number)

    async def _await_condition(self, condition: Callable[[], bool]) -> None:
        while not condition() and not self._stopped:
            if self._failure is not None:
                raise self._failure
            self._progress.clear()
            await self._progress.wait()
        if not condition():
            raise RuntimeError("the watcher was stopped")

    def _run(self) -> None:
        try:
            self._observer.run()
        except BaseException as error:
            self._call_in_loop(self._record_failure, error)
        finally:
            self._call_in_loop(self._ended.set)

    def _call_in_loop(self, what: Callable[..., None], *arguments: object) -> None:
        assert self._loop is not None
        try:
            self._loop.call_soon_threadsafe(what, *arguments)
        except RuntimeError:  # the loop is closed, so nothing listens any more
            self._observer.stop()

    def send_change(self, change: FileChange) -> None:
        self._call_in_loop(self._add_change, change)

    def _send_status(self, status: WatchStatus, taken_in: int) -> None:
        self._call_in_loop(self._update_status, status, taken_in)

    def _add_change(self, change: FileChange) -> None:
        self._pending = self._pending.merge(change) if self._pending else change
        self._news.set()

    def _update_status(self, status: WatchStatus, taken_in: int) -> None:
        before, self._status, self._taken_in = self._status, status, taken_in
        if before is not None and before.mode != status.mode:
            self.on_mode_changed(status)
        self._progress.set()

    def _record_failure(self, error: BaseException) -> None:
        self._failure = error
        self._news.set()
        self._progress.set()


def explain_scanning(scan: bool = False) -> str:
    """Return why files are compared instead of using events; empty if events are used."""
    if scan:
        return "requested"
    if os.environ.get(SCAN_VARIABLE) == "scan":
        return f"{SCAN_VARIABLE}=scan"
    if os.environ.get("WATCHFILES_FORCE_POLLING", "").lower() not in {"", "false", "disable", "disabled"}:
        return "WATCHFILES_FORCE_POLLING is set"
    return ""
