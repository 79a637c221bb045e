"""The top of the command line: help, version, paths, mistakes, and the end of every error."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from workbench import __version__
from workbench.cli import main as entry
from workbench.cli.main import COMMANDS, WORDS_ELSEWHERE, LazyGroup, cli, main
from workbench.model.criteria import InvalidConfig
from workbench.store.errors import StoreError


def test_help_lists_every_command_with_its_summary(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0

    output = capsys.readouterr().out
    group = cli
    assert isinstance(group, LazyGroup)
    context = click.Context(group)
    for name, (_, summary) in COMMANDS.items():
        command = group.get_command(context, name)
        assert command is not None
        assert command.get_short_help_str(limit=200).rstrip(".") == summary.rstrip(".")
        assert name in output


def iterate_commands() -> Iterator[click.Context]:
    """Yield a context for every command and group, with help at the narrowest supported terminal width."""
    pending = [click.Context(cli, info_name="workbench", terminal_width=80)]
    while pending:
        context = pending.pop()
        yield context
        if isinstance(context.command, click.Group):
            for name in context.command.list_commands(context):
                command = context.command.get_command(context, name)
                assert command is not None
                pending.append(click.Context(command, info_name=name, parent=context, terminal_width=80))


ALL_COMMANDS = pytest.mark.parametrize("context", [*iterate_commands()], ids=lambda context: context.command_path)

CAPITALS = frozenset(
    {
        "ADK",
        "AI",
        "US",
        "WORKBENCH_DEBUG",
        "XML",
        "CSV",
        "ERROR",
        "FAILED",
        "OTLP",
        "JSON",
        "JSONL",
        "URL",
        "CANDIDATE",
        "BASELINE",
        "TIE",
    }
)
"""Words in capitals that are not arguments."""


@ALL_COMMANDS
def test_help_names_arguments_as_the_usage_does(context: click.Context) -> None:
    usage = context.get_usage()
    options = [parameter for parameter in context.command.params if isinstance(parameter, click.Option)]
    metavars = set(
        re.findall(r"[A-Z][A-Z_]+", " ".join([usage, *(option.make_metavar(context) for option in options)]))
    )
    text = " ".join([context.command.help or "", *(option.help or "" for option in options)])

    words = set(re.findall(r"(?<![\w.])[A-Z][A-Z_]+(?![\w.])", text))

    assert words <= metavars | CAPITALS


@ALL_COMMANDS
def test_command_summaries_are_not_truncated(context: click.Context) -> None:
    group = context.command
    output = " ".join(context.get_help().split())

    for name in group.list_commands(context) if isinstance(group, click.Group) else ():
        assert isinstance(group, click.Group)
        command = group.get_command(context, name)
        assert command is not None
        assert f"{name} {command.get_short_help_str(limit=1000)}" in output


def test_help_and_version_import_no_heavy_modules() -> None:
    code = (
        "import sys; from workbench.cli.main import main; main(['--version']); main(['--help']);"
        "heavy = ('pydantic', 'textual', 'rich', 'sqlite3', 'asyncio', 'jinja2');"
        "print([name for name in heavy if name in sys.modules])"
    )

    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert result.stdout.startswith(f"workbench {__version__}\n")
    assert result.stdout.rstrip().endswith("[]")


@pytest.mark.parametrize("spelling", ["eval-set", "eval_set"])
def test_commands_are_accepted_with_dashes_and_underscores(spelling: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([spelling, "--help"]) == 0
    assert "add-eval-case" in capsys.readouterr().out
    assert main([spelling, "add_eval_case", "--help"]) == 0


def test_a_mistyped_command_gets_a_suggestion(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["histroy"]) == 2

    assert "did you mean `workbench history`?" in capsys.readouterr().err


def test_the_package_runs_as_a_program() -> None:
    result = subprocess.run(
        [sys.executable, "-m", "workbench", "--version"], capture_output=True, text=True, check=True
    )

    assert result.stdout == f"workbench {__version__}\n"


def test_files_of_the_user_replace_no_standard_modules(tmp_path: Path) -> None:
    (tmp_path / "logging.py").write_text("")
    (tmp_path / "selectors.py").write_text("")

    result = subprocess.run(
        [sys.executable, "-m", "workbench", "run"], cwd=tmp_path, capture_output=True, text=True, check=False
    )

    assert "Traceback" not in result.stderr
    assert result.returncode == 2  # there is nothing to run


def test_the_words_of_other_programs_lead_to_commands(capsys: pytest.CaptureFixture[str]) -> None:
    for word, command in WORDS_ELSEWHERE.items():
        assert main([word]) == 2
        assert f"did you mean `workbench {command}`?" in capsys.readouterr().err
        assert command == "." or main([*command.split(), "--help"]) == 0
        capsys.readouterr()


def test_a_missing_path_is_reported_as_a_path(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["agents/missing"]) == 2

    assert "no such file or folder: 'agents/missing'" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [[], ["."]])
def test_without_a_terminal_the_screen_says_what_to_do(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2

    assert "workbench run ." in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("run --timeout abc", "--timeout: found 'abc', expected a number above 0"),
        ("run --timeout nan", "--timeout: found 'nan', expected a number above 0"),
        ("run --runs 1.5", "--runs: found '1.5', expected a whole number of at least 1"),
        ("serve --port 70000", "--port: found '70000', expected a whole number from 0 to 65535"),
        ("bisect a --confidence 1", "--confidence: found '1', expected a number above 0.5 and below 1"),
        ("run --format xml", "--format: 'xml' is not one of 'text', 'json'"),
        ("score missing.csv", "DATASET: File 'missing.csv' does not exist"),
    ],
)
def test_a_wrong_value_is_reported_with_its_option_and_the_expectation(
    arguments: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments.split()) == 2

    assert f"\nworkbench: {message}" in capsys.readouterr().err


def test_an_unknown_option_gets_one_message(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--concurency", "3"]) == 2

    error = capsys.readouterr().err
    assert "--concurency" in error
    assert "Traceback" not in error


@pytest.mark.parametrize(
    ("error", "status", "text"),
    [
        (StoreError(Path("a.json"), "there is no such file"), 2, "workbench: a.json: there is no such file"),
        (InvalidConfig(place="criteria.x", found="nothing", expected="a number"), 2, "criteria.x: found nothing"),
        (KeyboardInterrupt(), 130, "interrupted"),
        (ZeroDivisionError("oh"), 2, "bug in workbench: ZeroDivisionError: oh"),
        (StoreError(Path("a\x1b[2Jb"), "is \x07 odd"), 2, "a␛[2Jb: is ␇ odd"),
    ],
)
def test_every_error_gets_one_message_without_a_traceback(
    error: BaseException,
    status: int,
    text: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail(**_: object) -> None:
        raise error

    monkeypatch.setattr(entry.cli, "main", fail)

    assert main(["run"]) == status
    message = capsys.readouterr().err
    assert text in message
    assert "Traceback" not in message


@pytest.mark.parametrize(
    "moment",
    [
        "sys.meta_path.insert(0, InterruptAt('click.core'))",  # imports of the entry point
        "sys.meta_path.insert(0, InterruptAt('workbench.cli.run_commands'))",
        "sys.meta_path.insert(0, InterruptAt('workbench.engine.plan')); entry().cli.main = lambda **_: 1 / 0",
        "entry().prepare_streams = lambda: weakref.finalize(set[int](), interrupt) and time.sleep(30)",  # a callback
        "entry().prepare_streams = type('Half', (), {'__init__': interrupt, '__del__': lambda self: self.missing})",
        "entry().cli.main = lambda **_: type('Model', (), {'a': type('Field', (), {'__set_name__': interrupt})()})",
        "atexit.register(interrupt)",
    ],
)
def test_an_interrupt_at_any_moment_ends_the_process_without_a_traceback(moment: str) -> None:
    code = f"""
import atexit, importlib, signal, sys, time, weakref
def entry(): return importlib.import_module("workbench.cli.main")
def interrupt(*_): signal.raise_signal(signal.SIGINT)
class InterruptAt:
    def __init__(self, name): self.name = name
    def find_spec(self, name, *_):
        if name == self.name: interrupt()
{moment}
sys.argv = ["workbench", "run", "--help"]
sys.exit(entry().main())
"""

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)

    assert done.returncode in (130, -signal.SIGINT)
    assert "Traceback" not in done.stderr


def test_the_debug_variable_lets_the_traceback_through(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(**_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(entry.cli, "main", fail)
    monkeypatch.setenv("WORKBENCH_DEBUG", "1")

    with pytest.raises(ZeroDivisionError):
        main(["run"])


@pytest.mark.parametrize(
    ("shell", "word"), [("bash", "complete -o nosort"), ("zsh", "#compdef"), ("fish", "complete --")]
)
def test_completion_scripts_call_workbench(shell: str, word: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0

    script = capsys.readouterr().out
    assert "_WORKBENCH_COMPLETE" in script
    assert word in script


def test_completion_knows_commands_and_options() -> None:
    def complete(words: str) -> str:
        environment = {"_WORKBENCH_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": "1"}
        result = subprocess.run(
            [sys.executable, "-c", "from workbench.cli.main import main; main([])"],
            env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        return result.stdout

    assert "plain,eval-set" in complete("workbench ev")
