"""Every block of README and docs does what its kind promises, see `tests/docs/blocks.py`."""

from __future__ import annotations

import ast
import itertools
import json
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path
from unittest.mock import MagicMock

import click
import pytest

from tests.cli.conftest import CommandLine
from tests.docs.blocks import BLOCKS, KINDS, ROOT, Block, blocks_of, command_lines, read_blocks
from tests.docs.conftest import add_sample_agents, write_files
from workbench.cli.main import cli
from workbench.llm.model_replay import read_script
from workbench.store.evalsets.config_files import load_environment
from workbench.store.settings import load_settings
from workbench.testing import pytest_plugin

SET_UP = [block for block in read_blocks(ROOT / "README.md") if block.kind == "sh"][:2]
"""What `.ci/run` runs, in fresh environments."""

IN_ORDER = ("README.md", "docs/tutorial.md")
"""Pages that are read like a lesson: their blocks are run one after the other, and their output is compared."""


def test_every_block_is_of_a_kind_that_is_checked() -> None:
    assert [f"{block}: {block.kind!r}" for block in BLOCKS if block.kind not in KINDS] == []


@pytest.mark.parametrize("page", IN_ORDER)
def test_a_lesson_gives_exactly_the_output_that_it_shows(page: str, empty: CommandLine) -> None:
    blocks = [block for block in read_blocks(ROOT / page) if block not in SET_UP]
    printed = ""
    for before, block in zip([None, *blocks], blocks, strict=False):
        write_files(empty, [block])
        if block.kind == "sh":
            printed = "".join(run(empty, line) for line in command_lines(block))
        elif block.kind == "text" and before is not None and before.kind == "sh":
            assert without_chance(printed).endswith(without_chance(block.text)), block


@pytest.mark.parametrize(
    "block", [each for each in blocks_of("sh") if each.page not in IN_ORDER and each not in SET_UP], ids=str
)
def test_commands_run(block: Block, sample: CommandLine) -> None:
    if "sample_agents" in block.text:
        add_sample_agents(sample)

    for line in command_lines(block):
        run(sample, line)


@pytest.mark.parametrize("block", [*blocks_of("bash"), *blocks_of("text"), *blocks_of("sh")], ids=str)
def test_commands_have_the_options_that_they_are_given(block: Block) -> None:
    for line in command_lines(block):
        for command in line.split(" && "):
            check_command(shlex.split(command, comments=True))


@pytest.mark.parametrize("block", blocks_of("python"), ids=str)
def test_python_runs(block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if "metrics_table" in block.text:
        pytest.importorskip("pandas")
    monkeypatch.chdir(tmp_path)

    exec(compile(block.text, str(block), "exec"), {"__name__": "block"})


@pytest.mark.parametrize("block", blocks_of("py"), ids=str)
def test_python_that_is_not_run_imports_what_is_there(block: Block) -> None:
    tree = ast.parse(block.text, str(block))
    imports = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]

    exec(compile(ast.Module([*imports], []), str(block), "exec"), {})


@pytest.mark.parametrize("block", blocks_of("toml"), ids=str)
def test_toml_is_read(block: Block, tmp_path: Path) -> None:
    if "tool" in tomllib.loads(block.text):  # pyproject.toml
        return
    (tmp_path / "workbench.toml").write_text(block.text, encoding="utf-8")

    loaded = load_settings(tmp_path, user_file=tmp_path / "none.toml")

    assert loaded.problems == ()


@pytest.mark.parametrize("block", blocks_of("json"), ids=str)
def test_json_is_read(block: Block, empty: CommandLine) -> None:
    data = json.loads(block.text)
    if "schema_version" in data:  # `tests/docs/test_facts.py` compares it with what the command gives
        assert block.page == "docs/formats.md"
    elif "rules" in data:
        read_script(empty.write("script.json", block.text))
    elif "json.schemas" in data:  # settings of an editor
        assert all(entry["fileMatch"] for entry in data["json.schemas"])
    elif "tool_simulation_configs" in data:
        assert load_environment(empty.write("environment.json", block.text))[1] == ()
    else:
        assert "eval_cases" in data or "criteria" in data
        name = "one.evalset.json" if "eval_cases" in data else "test_config.json"
        empty.write(name, block.text)
        done = empty("eval-set", "validate", name)
        assert done.status == 0, done.out  # warnings say what ADK ignores


@pytest.mark.parametrize("block", blocks_of("yaml"), ids=str)
def test_yaml_is_read(block: Block) -> None:
    pytest.importorskip("yaml").safe_load(block.text)


def run(project: CommandLine, line: str) -> str:
    """Run a command line, and give what it printed. A verdict that is no pass is no mistake of the documentation."""
    name, *arguments = shlex.split(line, comments=True)
    output = None
    if ">" in arguments:
        *arguments, _, output = arguments
    if name == "mkdir":
        (project.root / arguments[-1]).mkdir(parents=True, exist_ok=True)
        return ""
    if name == "pytest":
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments],
            cwd=project.root, stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8", check=False,
        )  # fmt: skip
        assert done.returncode in (0, 1), done.stdout
        return done.stdout
    assert name == "workbench", line
    result = project(*arguments)
    assert result.status in (0, 1), result.error
    if output is not None:
        project.write(output, result.out)
        return ""
    return result.out


def without_chance(output: str) -> str:
    """The output without times and the id of the run."""
    return re.sub(r"\d+\.\d\d s|(?<=^run )\S+", "…", output, flags=re.MULTILINE)


def check_command(words: Sequence[str]) -> None:
    """Fail if a command has an option, or a value of an option, that it does not know."""
    words = list(itertools.takewhile(lambda word: word not in (">", "|"), words))
    if words[0] == "uvx":
        words = words[words.index("workbench") :]
    if words[0] == "pytest":
        known = pytest_options()
        assert [word for word in words if word.startswith("--workbench") and word not in known] == []
    elif words[0] == "workbench":
        check_arguments(cli, list(words[1:]))
    else:
        assert words[0] in ("cd", ".", "mkdir", "pip", "pipx", "python", "python3"), words


def check_arguments(command: click.Command, arguments: list[str]) -> None:
    """Read the arguments of a command without running it."""
    context = click.Context(command, token_normalize_func=lambda token: token.replace("_", "-"))
    if isinstance(command, click.Group):
        below = command.get_command(context, arguments[0]) if arguments else None
        if below is not None:
            check_arguments(below, arguments[1:])
        else:
            assert len(arguments) <= 1, arguments  # a path to open
        return
    given, left, _ = command.make_parser(context).parse_args(arguments)
    assert left == []
    for parameter in command.params:
        value = given.get(parameter.name or "")
        if parameter.required:
            assert value, f"{command.name}: {parameter.name} is missing"
        if isinstance(parameter.type, click.Choice) and isinstance(value, str):
            parameter.type.convert(value, parameter, context)


def pytest_options() -> set[str]:
    """The options of the pytest plugin."""
    parser = MagicMock()
    pytest_plugin.pytest_addoption(parser)
    return {call.args[0] for call in parser.getgroup.return_value.addoption.call_args_list}


def test_the_options_of_the_plugin_are_those_of_the_table() -> None:
    table = (ROOT / "docs" / "pytest.md").read_text(encoding="utf-8")

    assert set(re.findall(r"^\| `(--workbench[a-z-]*)", table, re.MULTILINE)) == pytest_options()
