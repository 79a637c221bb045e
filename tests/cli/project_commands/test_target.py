"""`workbench target add`: its output, its questions, its errors."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cli.command_line import CommandLine
from workbench.store.errors import StoreError
from workbench.store.settings import NewTarget, add_target, load_settings

URL = "http://127.0.0.1:9/chat"


def test_a_target_is_added_at_the_end_and_nothing_else_changes(workbench: CommandLine) -> None:
    before = b"# mine\r\n[run]\r\nruns   = 2 # two\r\n[targets.a]\r\nkind='recorded'"
    workbench.write("workbench.toml", before)

    result = workbench("target", "add", "my web", "--kind", "http", "--target", URL)

    assert (result.status, result.out) == (0, "added target my web to workbench.toml\n")
    after = (workbench.root / "workbench.toml").read_bytes()
    assert after.startswith(before)
    assert after.removeprefix(before) == (
        b'\r\n\r\n[targets."my web"]\r\nkind = "http"\r\ntarget = "http://127.0.0.1:9/chat"\r\n'
        b'eval_sets = ["my web/*.evalset.json"]\r\n'
    )


@pytest.mark.parametrize(
    ("kind", "location", "message"),
    [
        ("function", "nowhere.agent:answer", "home2: there is no module nowhere.agent in "),
        ("adk", "no/such", "workbench.toml: targets.home2.target: no/such: there is no such agent: expected a folder"),
        ("recorded", "none.jsonl", "home2: none.jsonl: cannot read it: there is no such file or folder"),
        ("command", "no-such-program", "home2: the program 'no-such-program' does not exist"),
    ],
)
def test_a_target_with_a_missing_agent_is_added_with_a_message(
    workbench: CommandLine, kind: str, location: str, message: str
) -> None:
    result = workbench("target", "add", "home2", "--kind", kind, "--target", location)

    assert (result.status, result.out) == (0, "added target home2 to workbench.toml\n")
    assert f"workbench: {message}" in result.error
    assert f'target = "{location}"' in (workbench.root / "workbench.toml").read_text()


def test_a_target_with_an_existing_agent_is_added_without_a_warning(workbench: CommandLine) -> None:
    result = workbench("target", "add", "home2", "--kind", "function", "--target", "home.agent:answer")

    assert result.error == "workbench: `workbench doctor --check` checks whether the agent can be reached\n"


@pytest.mark.parametrize("kind", ["agent_engine", "agent-engine"])
def test_kinds_are_shown_with_underscores_and_accepted_with_dashes(workbench: CommandLine, kind: str) -> None:
    assert "|agent_engine|" in workbench("target", "add", "--help").out

    assert workbench("target", "add", "deployed", "--kind", kind, "--target", "home.agent:answer").status == 0
    assert 'kind = "agent_engine"' in (workbench.root / "workbench.toml").read_text()


def test_a_project_without_settings_gets_a_settings_file(tmp_path: Path) -> None:
    file = add_target(NewTarget(name="home", kind="function", location="home.agent:answer"), tmp_path)

    assert file.read_text() == '[targets.home]\nkind = "function"\ntarget = "home.agent:answer"\n'


@pytest.mark.parametrize(
    ("before", "arguments", "message"),
    [
        (
            "",
            ("web", "--kind", "http", "--target", "nowhere"),
            "targets.web.target: found 'nowhere', expected an http://",
        ),
        ("", ("web", "--kind", "command", "--target", "a 'b"), 'targets.web.target: found "a \'b", expected a program'),
        ("", ("web", "--kind", "http"), "missing --target, which workbench can ask for only in a terminal"),
        ("[run]\nruns = = 2", ("web", "--kind", "http", "--target", URL), "workbench.toml:2:8: is not TOML: Invalid"),
        ("targets = 3", ("web", "--kind", "http", "--target", URL), "targets: found 3, expected a table"),
        (
            "[targets.web]\nkind = 'recorded'",
            ("web", "--kind", "http", "--target", URL),
            "targets.web: a target with this name already exists",
        ),
        (
            "targets = { a = { kind = 'recorded' } }",
            ("web", "--kind", "http", "--target", URL),
            "targets: no table can be added to it: ",
        ),
    ],
)
def test_an_invalid_target_is_refused_and_nothing_is_written(
    workbench: CommandLine, before: str, arguments: tuple[str, ...], message: str
) -> None:
    workbench.write("workbench.toml", before)

    result = workbench("target", "add", *arguments)

    assert result.status == 2
    assert message in result.error
    assert (workbench.root / "workbench.toml").read_text() == before


def test_settings_that_cannot_be_used_are_named(workbench: CommandLine) -> None:
    (workbench.root / "workbench.toml").unlink()
    (workbench.root / "workbench.toml").mkdir()

    result = workbench("target", "add", "web", "--kind", "http", "--target", URL)

    assert result.error == "workbench: workbench.toml: cannot read it: it is a folder, expected a file\n"


def test_in_a_terminal_the_command_asks_until_the_answer_is_valid(tmp_path: Path) -> None:
    controller, terminal = pty.openpty()
    command = [str(Path(sys.executable).parent / "workbench"), "target", "add"]
    process = subprocess.Popen(command, cwd=tmp_path, stdin=terminal, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    os.close(terminal)
    os.write(controller, b"http\nweb\nnowhere\n" + URL.encode() + b"\n\n")
    out = process.communicate(timeout=60)[0].decode()
    os.close(controller)

    assert process.returncode == 0, out
    assert "found 'nowhere', expected an http:// or https:// URL" in out
    settings = load_settings(tmp_path, user_file=tmp_path / "none").settings.targets["web"]
    assert (settings.kind, settings.target, settings.eval_sets) == ("http", URL, ("web/*.evalset.json",))


TEXTS = st.sampled_from(
    ["", "# c\n", "[run]\nruns = 3\n", "[keys]\na = 'b'", "\n\n", "[targets.z]\nkind = 'recorded'\n"]
)


@given(st.lists(TEXTS, unique=True), st.text(st.characters(codec="utf-8"), max_size=8), st.text(max_size=20))
def test_an_added_target_is_read_back_unchanged(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str], name: str, location: str
) -> None:
    root = tmp_path_factory.mktemp("project")
    before = "\n".join(texts)
    (root / "workbench.toml").write_text(before, newline="")
    target = NewTarget(name=name, kind="adk", location=location, eval_sets=("a/*.json",))

    try:
        add_target(target, root)
    except StoreError:
        assert (root / "workbench.toml").read_text() == before
        return

    assert (root / "workbench.toml").read_text().startswith(before)
    new_target = load_settings(root, user_file=root / "none").settings.targets[name]
    assert (new_target.kind, new_target.target, new_target.eval_sets) == ("adk", location, ("a/*.json",))
