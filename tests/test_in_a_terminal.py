"""The program in a real terminal of tmux: typed input, screen contents, interrupts and kills."""

from __future__ import annotations

import json
import os
import pty
import re
import shlex
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytestmark = [pytest.mark.needs_tmux, pytest.mark.needs_fork]

PATIENCE = 30  # seconds to wait for an expected screen
WORKBENCH = Path(sys.executable).with_name("workbench")

AGENT = """
import subprocess, time
def answer(prompt):
    if prompt == "hang":
        subprocess.Popen(["sleep", "54321"])
        time.sleep(1000)
    return prompt
"""


class Terminal:
    """A shell in its own tmux server."""

    def __init__(self, folder: Path, *, width: int, height: int) -> None:
        self._server = f"workbench-test-{uuid.uuid4().hex[:8]}"
        environment = {**os.environ, "LC_ALL": "C.UTF-8", "PS1": "$ ", "HISTFILE": "/dev/null"}
        subprocess.run(
            ["tmux", "-L", self._server, "-f", "/dev/null", "new-session", "-d", "-x", str(width), "-y", str(height),
             "-c", str(folder), "env", "-u", "TMUX", "PS1=$ ", "sh"],
            check=True,
            env=environment,
        )  # fmt: skip
        self.until(r"\$")  # what is typed before the first prompt comes before it

    def press(self, *press: str) -> None:
        """Press keys, given by their tmux names."""
        self._tmux("send-keys", *press)

    def enter(self, *command: str | Path) -> None:
        """Type a command and press Enter."""
        self._tmux("send-keys", "-l", shlex.join(map(str, command)))
        self.press("Enter")

    def screen(self) -> str:
        """Return the visible text."""
        return self._tmux("capture-pane", "-p")

    def until(self, wanted: str) -> str:
        """Wait until a pattern is visible, and return the screen text."""

        def look() -> str:
            screen = self.screen()
            return screen if re.search(wanted, screen) else ""

        try:
            return wait_for(look, wanted)
        except AssertionError as error:
            raise AssertionError(f"{error}; the screen was:\n{self.screen()}") from None

    def close(self) -> None:
        """End the shell and all programs in it."""
        subprocess.run(["tmux", "-L", self._server, "kill-server"], check=False, capture_output=True)

    def _tmux(self, *words: str) -> str:
        done = subprocess.run(["tmux", "-L", self._server, *words], check=True, capture_output=True, text=True)
        return done.stdout


def wait_for(look: Callable[[], str], wanted: str) -> str:
    """Return the first non-empty result of `look`."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        if seen := look():
            return seen
        time.sleep(0.05)
    raise AssertionError(f"never came: {wanted}")


def find_processes(marker: str) -> str:
    """List the processes with the marker in their command line or working folder, except shells and tmux."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            folder = str((entry / "cwd").readlink())
        except OSError:
            continue  # it ended during the search
        has_marker = marker in command or marker in folder
        if has_marker and not command.startswith(("sh ", "tmux ", "env ")):
            found.append(f"{entry.name} {command}")
    return "\n".join(found)


def find_hanging_processes(project: Path) -> str:
    """Return the processes that the hanging agent of this project started."""
    return "\n".join(line for line in find_processes(project.name).splitlines() if "54321" in line)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    def case(eval_id: str, prompt: str, expected: str) -> dict[str, object]:
        return {
            "eval_id": eval_id,
            "conversation": [
                {
                    "user_content": {"role": "user", "parts": [{"text": prompt}]},
                    "final_response": {"role": "model", "parts": [{"text": expected}]},
                }
            ],
        }

    root = tmp_path / f"project-{uuid.uuid4().hex[:6]}"
    root.mkdir()
    (root / "agent.py").write_text(AGENT)
    (root / "workbench.toml").write_text(
        '[targets.echo]\nkind = "function"\ntarget = "agent:answer"\neval_sets = ["*.evalset.json"]\n'
    )
    good = [case("same", "hello", "hello"), case("other", "tea please", "coffee it is")]
    for name, cases in (("quick", good), ("slow", [*good, case("stuck", "hang", "hang")])):
        (root / f"{name}.evalset.json").write_text(json.dumps({"eval_set_id": name, "eval_cases": cases}))
    return root


@pytest.fixture
def terminal(project: Path) -> Iterator[Terminal]:
    terminal = Terminal(project, width=120, height=30)
    yield terminal
    terminal.close()


@pytest.fixture
def next_terminal(project: Path) -> Iterator[Terminal]:
    """A second terminal: a killed screen leaves the first one unusable."""
    terminal = Terminal(project, width=120, height=30)
    yield terminal
    terminal.close()


def test_the_screen_runs_cases_shows_differences_and_restores_the_terminal(terminal: Terminal) -> None:
    terminal.enter(WORKBENCH, "quick.evalset.json")
    terminal.until(r"other")

    terminal.press("R")
    terminal.until(r"✗\s*1")
    terminal.press("n")
    screen_text = terminal.until(r"coffee it is")
    assert "tea please" in screen_text

    terminal.press("q")
    terminal.until(r"^\$ ?$|\n\$ ?\n")
    terminal.enter("echo", "still", "here")
    terminal.until(r"(?<!echo )still here")


def test_the_next_start_shows_the_last_picture_and_handles_keys_typed_meanwhile(
    terminal: Terminal, project: Path
) -> None:
    terminal.enter(WORKBENCH, "quick.evalset.json")
    terminal.until(r"no run in this session")
    terminal.press("q")
    wait_for(lambda: "" if find_processes(project.name) else "none", "the end of the process")

    terminal.enter(WORKBENCH, "quick.evalset.json")
    terminal.until(r"opening the project")
    assert "other" in terminal.screen()
    terminal.press("G", "2")
    terminal.until(r"tea please")
    terminal.press("q")
    wait_for(lambda: "" if find_processes(project.name) else "none", "the end of the process")
    terminal.enter("stty", "-a")
    terminal.until(r"(?<!-)\becho\b")


def test_an_interrupted_run_shows_finished_cases_and_leaves_no_process(terminal: Terminal, project: Path) -> None:
    terminal.enter(WORKBENCH, "run", "slow.evalset.json", "--concurrency", "1")
    wait_for(lambda: find_hanging_processes(project), "the hanging agent's own process")

    terminal.press("C-c")
    screen_text = terminal.until(r"1 cancelled")

    assert re.search(r"PASSED\s+same", screen_text) and re.search(r"FAILED\s+other", screen_text)
    terminal.press("echo status $?", "Enter")
    terminal.until(r"status 130")
    wait_for(lambda: "" if find_processes(project.name) else "none", "the end of every process")


def test_a_killed_screen_leaves_no_process(terminal: Terminal, project: Path) -> None:
    terminal.enter(WORKBENCH, "slow.evalset.json")
    terminal.until(r"stuck")
    terminal.press("R")
    wait_for(lambda: find_hanging_processes(project), "the hanging agent's own process")

    subprocess.run(["pkill", "-KILL", "-f", f"{WORKBENCH} slow.evalset.json"], check=True)

    wait_for(lambda: "" if find_processes(project.name) else "none", "the end of every process")


def edit_in_external_editor(terminal: Terminal, project: Path) -> None:
    """Change a case with $VISUAL, which replaces a word, and leave it unsaved."""
    editor = project / "editor.sh"
    editor.write_text("#!/bin/sh\nsed -i 's/tea please/green tea/' \"$1\"\n")
    editor.chmod(0o755)
    terminal.enter("export", f"VISUAL={editor}")
    terminal.enter(WORKBENCH, "quick.evalset.json")
    terminal.until(r"other")
    terminal.press("G")
    terminal.until(r"tea please")
    terminal.press("E")
    terminal.until(r"green tea")


def signal_screen(project: Path, number: signal.Signals) -> None:
    """Send a signal to the screen that is open on the project."""
    (screen,) = [line for line in find_processes(project.name).splitlines() if "quick.evalset.json" in line]
    os.kill(int(screen.split()[0]), number)


def test_the_next_screen_offers_the_edits_of_a_killed_one(
    terminal: Terminal, next_terminal: Terminal, project: Path
) -> None:
    before = (project / "quick.evalset.json").read_bytes()
    edit_in_external_editor(terminal, project)
    wait_for(lambda: "".join(map(str, project.glob(".workbench/recovery/*.recovery"))), "the recovery file")

    signal_screen(project, signal.SIGKILL)
    terminal.until(r"Killed")
    assert (project / "quick.evalset.json").read_bytes() == before
    next_terminal.enter(WORKBENCH, "quick.evalset.json")
    next_terminal.until(r"1 case differs")
    next_terminal.press("r")
    next_terminal.until(r"other \*")
    next_terminal.press("G")
    next_terminal.until(r"green tea")
    next_terminal.press("C-s")
    next_terminal.until(r"saved quick")

    assert (project / "quick.evalset.json").read_bytes() == before.replace(b"tea please", b"green tea")
    next_terminal.press("q")
    wait_for(lambda: "" if find_processes(project.name) else "none", "the end of every process")


def test_typed_text_that_was_not_applied_survives_a_kill(
    terminal: Terminal, next_terminal: Terminal, project: Path
) -> None:
    terminal.enter(WORKBENCH, "quick.evalset.json")
    terminal.until(r"other")
    terminal.press("G")
    terminal.until(r"tea please")
    terminal.press("e")
    terminal.until(r"eval id")
    terminal.until(r"\+ add")  # the keys of the editor: it has the focus
    terminal.press("Enter")
    terminal.until(r"⏎ apply")  # the field is there
    terminal.press("-l", "half a thought")
    terminal.until(r"half a thought")

    def read_typed_text() -> str:
        return "".join(path.read_text() for path in project.glob(".workbench/recovery/*.typed"))

    wait_for(lambda: read_typed_text() if "half a thought" in read_typed_text() else "", "the file of what is typed")

    signal_screen(project, signal.SIGKILL)
    terminal.until(r"Killed")
    next_terminal.enter(WORKBENCH, "quick.evalset.json")

    next_terminal.until(r"typed in an earlier session")
    next_terminal.press("G")
    next_terminal.until(r"tea please")
    next_terminal.press("e")
    next_terminal.until(r"1 typed, not applied")
    next_terminal.until(r"\+ add")
    next_terminal.press("Enter")
    next_terminal.until(r"half a thought")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_terminated_screen_saves_edits_for_recovery(
    terminal: Terminal, project: Path, number: signal.Signals
) -> None:
    edit_in_external_editor(terminal, project)

    signal_screen(project, number)

    # Do not wait for the prompt: with a slow shell it is visible below the screen from the start.
    wait_for(lambda: "" if find_processes(project.name) else "none", "the end of every process")
    (recovery_file,) = project.glob(".workbench/recovery/*.recovery")
    assert b"green tea" in recovery_file.read_bytes()


def test_a_screen_whose_terminal_closes_ends_and_saves_edits_for_recovery(terminal: Terminal, project: Path) -> None:
    edit_in_external_editor(terminal, project)

    terminal.close()

    def is_gone() -> str:
        return "" if "quick.evalset.json" in find_processes(project.name) else "gone"

    wait_for(is_gone, "the end of the process")
    (recovery_file,) = project.glob(".workbench/recovery/*.recovery")
    assert b"green tea" in recovery_file.read_bytes()


@pytest.mark.parametrize("is_read", [True, False], ids=["read", "not read"])
def test_a_screen_that_gets_no_signal_when_its_terminal_closes_ends_too(project: Path, is_read: bool) -> None:
    master, slave = pty.openpty()
    # In a session of its own, without a controlling terminal, as some programs start others.
    process = subprocess.Popen(
        [WORKBENCH, "quick.evalset.json"], cwd=project, stdin=slave, stdout=slave, stderr=slave, start_new_session=True
    )
    os.close(slave)
    try:
        seen = b""
        while b"other" not in seen:
            seen += os.read(master, 100_000)
        if not is_read:  # the screen writes until all buffers are full
            for _ in range(40):
                for key in (b"?", b"\x1b"):  # open and close the help
                    os.write(master, key)
                    time.sleep(0.15)
        os.close(master)
        process.wait(PATIENCE)
    finally:
        process.kill()


def test_the_tour_starts_stops_and_continues(terminal: Terminal, tmp_path: Path) -> None:
    terminal.enter("export", f"XDG_CACHE_HOME={tmp_path / 'cache'}", f"XDG_STATE_HOME={tmp_path / 'state'}")
    terminal.enter(WORKBENCH, "tour")
    terminal.until(r"step 1 of 10")
    terminal.press("Down", "Down", "Down")
    terminal.until(r"step 2 of 10.*f8 skip  f4 end the tour")
    terminal.press("r")
    terminal.until(r"step 3 of 10[^$]*finished[^$]*15/15")
    terminal.press("F8")
    terminal.until(r"step 4 of 10")
    terminal.press("q")
    terminal.until(r"^\$ ?$|\n\$ ?\n")

    terminal.enter(WORKBENCH, "tour")
    terminal.until(r"step 4 of 10[^$]*15 cases|15 cases[^$]*step 4 of 10")
    terminal.press("F4")
    terminal.until(r"`workbench tour` continues")
    terminal.press("q")
    terminal.until(r"^\$ ?$|\n\$ ?\n")

    terminal.enter(WORKBENCH, "tour", "--restart")
    terminal.until(r"step 1 of 10[^$]*127 not run")
    terminal.press("q")
    terminal.until(r"^\$ ?$|\n\$ ?\n")
