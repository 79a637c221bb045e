"""Editing texts in the editor of the user. The screen is suspended meanwhile, and no typed text is ever lost.

Call `edit_text` from a worker: it asks questions on the screen and waits for the answers.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from textual.app import App, SuspendNotSupported

from workbench.tui.dialogs.dialogs import ConfirmScreen
from workbench.tui.state.problem_list import Severity
from workbench.tui.state.text_layout import safe

Check = Callable[[str], str | None]
"""Returns an error message with its location, or None if the text is valid. Runs in a separate thread."""

_FALLBACKS = ("sensible-editor", "editor", "nano", "vi", "notepad")
_AT_LINE = {"code": "-g {file}:{line}", "subl": "{file}:{line}", "hx": "{file}:{line}", "zed": "{file}:{line}"}
_PLUS_LINE = frozenset({"vi", "vim", "nvim", "nano", "emacs", "emacsclient", "micro", "kak", "joe", "ne", "mg"})


class EditorFailed(Exception):
    """The editor could not be started, or it exited with an error."""


async def edit_text(app: App[object], text: str, *, suffix: str, check: Check) -> str | None:
    """Let the user edit a text. Return the edited text, or None if it is unchanged or the user gave up.

    The name of the edited file ends in `suffix`. If `check` finds an error, the user may edit the text again. If the
    user declines or the editor fails, a changed file stays and a message shows its path.
    """
    try:
        folder = Path(tempfile.mkdtemp(prefix="workbench-"))
        file = folder / f"text{suffix}"
        file.write_text(text, encoding="utf-8", newline="")
    except OSError as error:
        _say(app, f"no temporary file can be written in {tempfile.gettempdir()}: {error.strerror}", severity="error")
        return None
    try:
        edited = await _edit_until_right(app, file, text, check)
    except EditorFailed as failure:
        _say(app, f"{failure}{_kept(file, text)}", severity="error")
    except _GaveUp:
        _say(app, f"nothing was changed{_kept(file, text)}", severity="warning")
    else:
        shutil.rmtree(folder, ignore_errors=True)
        return edited
    if _is_untouched(file, text):
        shutil.rmtree(folder, ignore_errors=True)
    return None


def keep_text(text: str, *, suffix: str) -> str:
    """Write an edited text that was not applied to a temporary file, and return its path. Raises OSError."""
    with tempfile.NamedTemporaryFile(
        "w", prefix="workbench-", suffix=suffix, delete=False, encoding="utf-8", newline=""
    ) as file:
        file.write(text)
    return file.name


async def open_file(app: App[object], path: Path, *, line: int | None) -> bool:
    """Open a project file in the editor, at a line if the editor supports it. Return False if that failed."""
    try:
        _run(app, editor_command(os.environ, path, line=line))
    except EditorFailed as failure:
        _say(app, str(failure), severity="error")
        return False
    return True


def editor_command(environment: Mapping[str, str], file: Path, *, line: int | None = None) -> Sequence[str]:
    """Return the command that edits a file: $VISUAL, else $EDITOR, else an installed editor. Raise EditorFailed."""
    chosen = environment.get("VISUAL") or environment.get("EDITOR") or ""
    try:
        words = shlex.split(chosen) or [_fallback()]
    except ValueError as error:
        raise EditorFailed(f"$VISUAL or $EDITOR cannot be read: {chosen}: {error}") from error
    if line is None:
        return [*words, str(file)]
    name = Path(words[0]).name
    if name in _AT_LINE:
        return [*words, *(word.format(file=file, line=line) for word in _AT_LINE[name].split())]
    return [*words, *([f"+{line}"] if name in _PLUS_LINE else []), str(file)]


class _GaveUp(Exception):
    """The user does not want to correct an invalid text."""


async def _edit_until_right(app: App[object], file: Path, text: str, check: Check) -> str | None:
    while True:
        _run(app, editor_command(os.environ, file))
        try:
            edited = _as_it_was_ended(_read(file), text)
        except OSError as error:
            raise EditorFailed(f"the edited text cannot be read: {error.strerror}") from error
        except UnicodeDecodeError as error:
            problem: str | None = f"byte {error.start + 1} is not UTF-8"
        else:
            if edited == text:
                return None
            problem = await asyncio.to_thread(check, edited)
            if problem is None:
                return edited
        if not await app.push_screen_wait(ConfirmScreen(safe(f"{problem}\n\nEdit it again?"))):
            raise _GaveUp


def _run(app: App[object], command: Sequence[str]) -> None:
    """Suspend the screen and run the editor. Exceptions are raised afterwards, or the screen would not resume."""
    failure = ""
    try:
        with app.suspend():
            try:
                status = subprocess.run(command, check=False).returncode
                failure = f"ended with status {status}" if status else ""
            except OSError as error:
                failure = f"cannot be started: {error.strerror}"
            except KeyboardInterrupt:
                failure = "was interrupted"
    except SuspendNotSupported as error:
        raise EditorFailed("this terminal cannot run an editor") from error
    if failure:
        raise EditorFailed(f"the editor {command[0]} {failure}; $VISUAL or $EDITOR sets the editor")


def _fallback() -> str:
    found = next((name for name in _FALLBACKS if shutil.which(name)), None)
    if found is None:
        raise EditorFailed("there is no editor: set $VISUAL or $EDITOR")
    return found


def _as_it_was_ended(edited: str, text: str) -> str:
    """Remove the final line feed that most editors add, if the original text had none."""
    return edited if text.endswith("\n") else edited.removesuffix("\n").removesuffix("\r")


def _read(file: Path) -> str:
    return file.read_bytes().decode("utf-8")


def _is_untouched(file: Path, text: str) -> bool:
    try:
        return file.read_bytes() == text.encode()
    except OSError:
        return True


def _kept(file: Path, text: str) -> str:
    return "" if _is_untouched(file, text) else f"; your text is in {file}"


def _say(app: App[object], message: str, *, severity: Severity) -> None:
    app.notify(safe(message), severity=severity, markup=False)
