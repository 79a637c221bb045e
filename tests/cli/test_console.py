"""Standard output and error: missing readers, limited encodings, unwanted colours."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

import pytest

from workbench.cli.console import message, wants_colour
from workbench.cli.printers import ProgressPrinter
from workbench.model.results import CaseStatus


def start_python(code: str, **environment: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment or None,
    )


def test_a_reader_that_closes_the_pipe_is_not_an_error() -> None:
    code = (
        "from workbench.cli.console import *\nimport sys\n"
        "for n in range(100_000): write_lines([str(n)])\n"
        "message('went on to the end'); sys.exit(3)"
    )
    process = start_python(code)
    assert process.stdout is not None
    assert process.stderr is not None

    process.stdout.read(10)
    process.stdout.close()

    assert process.stderr.read() == b"workbench: went on to the end\n"
    assert process.wait() == 3


def test_characters_outside_the_encoding_do_not_end_the_program() -> None:
    code = (
        "from workbench.cli.console import *\n"
        "prepare_streams(); write_lines(['\\u2713 \\u5173']); write_document('\\u5173')"
    )
    process = start_python(code, PYTHONIOENCODING="latin-1")

    out, error = process.communicate()

    assert out == b"? ?\n" + "关".encode()
    assert error == b""


def test_messages_show_no_control_characters_and_no_secrets(capsys: pytest.CaptureFixture[str]) -> None:
    message("\x1b]0;title\x07 api_key=abcdef123456")

    assert capsys.readouterr().err == "workbench: ␛]0;title␇ api_key=[redacted]\n"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_colours_need_a_terminal_and_no_variable_against_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")

    assert wants_colour(Terminal(), plain=False)
    assert not wants_colour(Terminal(), plain=True)
    assert not wants_colour(io.StringIO(), plain=False)
    monkeypatch.setenv("NO_COLOR", "1")
    assert not wants_colour(Terminal(), plain=False)


def test_progress_shows_counts_speed_and_the_current_case() -> None:
    progress = ProgressPrinter(total=4, shown=False)
    for status in (CaseStatus.PASSED, CaseStatus.FAILED):
        progress.count_case(status)
    progress.show_case("sets/a.evalset.json:case_3")

    assert progress.text(4.0) == "██████████░░░░░░░░░░  2/4  ✓1  ✗1  4.00 s  0.5/s  eta 4 s  sets/a.evalset.json:case_3"
    progress.show_imports(("home", "car"))
    assert progress.text(4.0).endswith("  importing home, car")


def test_a_pause_of_the_progress_clears_its_line(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with ProgressPrinter(total=2, shown=True) as progress:
        progress.show_case("odd \x1b[2J name")
        while not terminal.getvalue():
            pass
        with progress.pause():
            assert terminal.getvalue().endswith("\r\x1b[K")

    assert "\x1b[2J" not in terminal.getvalue()


def test_without_a_terminal_there_is_no_progress(capsys: pytest.CaptureFixture[str]) -> None:
    with ProgressPrinter(total=2, shown=False) as progress:
        progress.count_case(CaseStatus.PASSED)

    assert capsys.readouterr().err == ""


def test_an_unwritable_message_does_not_change_the_exit_status() -> None:
    code = "from workbench.cli.console import *\nimport sys\nmessage('lost'); sys.exit(3)"

    with Path("/dev/full").open("w") as full:
        assert subprocess.run([sys.executable, "-c", code], stderr=full, check=False).returncode == 3


@pytest.mark.parametrize("redirection", [">&-", "2>&-", ">&- 2>&- <&-"])
def test_a_closed_stream_is_not_an_error_and_no_file_replaces_it(tmp_path: Path, redirection: str) -> None:
    (tmp_path / "program.py").write_text(
        "import os, subprocess, sys\n"
        "from workbench.cli.console import *\n"
        "prepare_streams()\n"
        "with open('file', 'w') as file:\n"
        "    write_lines(['result']); message('said'); os.system('echo from a child')\n"
        "    sys.exit(0 if file.fileno() > 2 and sys.stdin.read() == '' else 1)\n"
    )

    result = subprocess.run(
        ["sh", "-c", f'"$0" program.py {redirection}', sys.executable],
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )

    assert result.returncode == 0, result.stderr
    assert (tmp_path / "file").read_text() == ""
