"""Events of the file system: one watch on each of a list of folders, none on what lies below."""

from __future__ import annotations

import errno
import time
from collections.abc import Callable, Iterable

STEP = 0.020  # seconds of quiet after which what happened is told
_DEBOUNCE = 0.060  # at most so long for one batch; whoever wants longer asks again
_SPARE = 0.5


class Unavailable(Exception):
    """There are no events; the message says why."""


class Vanished(Exception):
    """A folder of the list is not there any more."""


class Lost(Exception):
    """Something happened that could not be told."""


class Listener:
    """What happens in some folders from now on."""

    def __init__(self, folders: Iterable[str]) -> None:
        """Begin to listen. Raises `Unavailable` or `Vanished`."""
        folders = list(folders)
        try:
            # Private by its name, but documented ("Rust backend direct usage"). `watchfiles.watch` would begin to listen
            # too late, and end when it is asked to stop waiting.
            from watchfiles._rust_notify import RustNotify
        except ImportError as error:
            raise Unavailable(f"watchfiles cannot be loaded: {error}") from None

        def listen(*, ignore_permission_denied: bool) -> RustNotify:
            # No debug output, no polling (every 300 ms), not recursive.
            return RustNotify(folders, False, False, 300, False, ignore_permission_denied)

        try:
            try:
                self._notify = listen(ignore_permission_denied=False)
            except PermissionError:  # to ignore that is to ignore the system's limit, too
                self._notify = listen(ignore_permission_denied=True)
        except FileNotFoundError as error:
            raise Vanished(str(error)) from None
        except (OSError, RuntimeError, TypeError) as error:
            raise Unavailable(_reason(error)) from None

    def wait(self, seconds: float, enough: Callable[[], bool]) -> frozenset[str]:
        """The paths of which something was told; none where nothing was for so long, or once `enough` says so.

        What happens in the very moment in which it returns with nothing may be missed: look at everything now and then.
        """
        # The time-out of the library goes by the wall clock, which may jump; the deadline does not.
        deadline = _Deadline(enough, time.monotonic() + seconds + _SPARE)
        try:
            told = self._notify.watch(int(_DEBOUNCE * 1000), int(STEP * 1000), max(1, int(seconds * 1000)), deadline)
        except RuntimeError as error:
            raise Lost(str(error)) from None
        return frozenset() if isinstance(told, str) else frozenset(path for _, path in told)

    def close(self) -> None:
        """Stop listening."""
        self._notify.close()


class _Deadline:
    def __init__(self, enough: Callable[[], bool], at: float) -> None:
        self._enough = enough
        self._at = at

    def is_set(self) -> bool:
        return self._enough() or time.monotonic() > self._at


def _reason(error: Exception) -> str:
    # Of inotify: ENOSPC where there are too many watches, EMFILE where too many instances. Not all come with a number.
    limits = ("limit", "os error 24", "os error 28")
    if any(sign in str(error) for sign in limits) or getattr(error, "errno", None) in (errno.EMFILE, errno.ENOSPC):
        return "the system's limit of watched folders is reached (fs.inotify.max_user_watches, max_user_instances)"
    return f"the system sends no events: {error}"
