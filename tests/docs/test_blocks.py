"""Every block of README and docs passes the checks of its kind, see `tests/docs/blocks.py`."""

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

from tests.cli.command_line import CommandLine
from tests.docs.blocks import BLOCKS, KINDS, ROOT, Block, find_blocks, read_blocks, read_commands
from tests.docs.conftest import add_sample_agents, write_files
from workbench.cli.main import cli
from workbench.llm.model_replay import read_script
from workbench.store.evalsets.config_files import load_environment
from workbench.store.evalsets.quarantine import read_quarantines
from workbench.store.settings import load_settings
from workbench.testing import pytest_plugin

SETUP_BLOCKS = [block for block in read_blocks(ROOT / "README.md") if block.kind == "sh"][:2]
"""Commands that `.ci/run` runs in fresh environments."""

SUCCESSIVE_PAGES = ("README.md", "docs/tutorial.md")
"""Pages with successive blocks, which are run in order and whose output is compared."""


FRAMEWORKS = (
    "pydantic_ai",
    "agents",
    "openinference.instrumentation.openai_agents",
    "openinference.instrumentation.crewai",
)
"""Modules in blocks that are not installed for the tests."""


def test_every_block_has_a_kind_with_a_check() -> None:
    assert [f"{block}: {block.kind!r}" for block in BLOCKS if block.kind not in KINDS] == []


@pytest.mark.parametrize("page", SUCCESSIVE_PAGES)
def test_successive_blocks_print_exactly_the_documented_output(page: str, empty_project: CommandLine) -> None:
    blocks = [block for block in read_blocks(ROOT / page) if block not in SETUP_BLOCKS]
    printed = ""
    for before, block in zip([None, *blocks], blocks, strict=False):
        write_files(empty_project, [block])
        if block.kind == "sh":
            printed = "".join(run_command(empty_project, line) for line in read_commands(block))
        elif block.kind == "text" and before is not None and before.kind == "sh":
            assert remove_variable_parts(printed).endswith(remove_variable_parts(block.text)), block


@pytest.mark.parametrize(
    "block",
    [each for each in find_blocks("sh") if each.page not in SUCCESSIVE_PAGES and each not in SETUP_BLOCKS],
    ids=str,
)
def test_documented_commands_run(block: Block, readme_project: CommandLine) -> None:
    if "sample_agents" in block.text:
        add_sample_agents(readme_project)

    for line in read_commands(block):
        run_command(readme_project, line)


@pytest.mark.parametrize("block", [*find_blocks("bash"), *find_blocks("text"), *find_blocks("sh")], ids=str)
def test_documented_commands_use_only_known_options(block: Block) -> None:
    for line in read_commands(block):
        for command in line.split(" && "):
            check_command(shlex.split(command, comments=True))


@pytest.mark.parametrize("block", find_blocks("python"), ids=str)
def test_documented_python_runs(block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if "metrics_table" in block.text:
        pytest.importorskip("pandas")
    monkeypatch.chdir(tmp_path)

    exec(compile(block.text, str(block), "exec"), {"__name__": "block"})


@pytest.mark.parametrize("block", find_blocks("py"), ids=str)
def test_documented_python_imports_existing_names(block: Block) -> None:
    tree = ast.parse(block.text, str(block))
    imports = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    for name in FRAMEWORKS:
        if any(isinstance(node, ast.ImportFrom) and node.module == name for node in imports):
            pytest.importorskip(name, reason="tests/agents/worker/telemetry/test_frameworks.py tries it")

    exec(compile(ast.Module([*imports], []), str(block), "exec"), {})


@pytest.mark.parametrize("block", find_blocks("toml"), ids=str)
def test_documented_toml_is_valid(block: Block, tmp_path: Path) -> None:
    if "tool" in tomllib.loads(block.text):  # pyproject.toml
        return
    (tmp_path / "workbench.toml").write_text(block.text, encoding="utf-8")

    loaded = load_settings(tmp_path, user_file=tmp_path / "none.toml")

    assert loaded.problems == ()


@pytest.mark.parametrize("block", find_blocks("json"), ids=str)
def test_documented_json_is_valid(block: Block, empty_project: CommandLine) -> None:
    data = json.loads(block.text)
    if "schema_version" in data:  # `tests/docs/test_facts.py` compares it with the output of the command
        assert block.page == "docs/formats.md"
    elif "rules" in data:
        read_script(empty_project.write("script.json", block.text))
    elif "json.schemas" in data:  # editor settings
        assert all(entry["fileMatch"] for entry in data["json.schemas"])
    elif "mcpServers" in data:  # the file of a client
        ((command, *arguments),) = [[entry["command"], *entry["args"]] for entry in data["mcpServers"].values()]
        assert command == "workbench"
        known = [word for word in arguments if "/" not in word and word != "--path"]
        assert empty_project(*known, "--help").status == 0
    elif "quarantine" in data:
        empty_project.write("one.evalset.workbench.json", block.text)
        found = read_quarantines(empty_project.root / "one.evalset.json")
        assert found.cases and not found.problems
    elif "tool_simulation_configs" in data:
        assert load_environment(empty_project.write("environment.json", block.text))[1] == ()
    else:
        assert "eval_cases" in data or "criteria" in data
        name = "one.evalset.json" if "eval_cases" in data else "test_config.json"
        empty_project.write(name, block.text)
        done = empty_project("eval-set", "validate", name)
        assert done.status == 0, done.out  # warnings about keys that ADK ignores are expected


@pytest.mark.parametrize("block", find_blocks("yaml"), ids=str)
def test_documented_yaml_is_valid(block: Block) -> None:
    pytest.importorskip("yaml").safe_load(block.text)


def run_command(project: CommandLine, line: str) -> str:
    """Run a command line and return its output. A failed verdict (status 1) is allowed."""
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


def remove_variable_parts(output: str) -> str:
    """Return the output without times and run id."""
    return re.sub(r"\d+\.\d\d s|(?<=^run )\S+", "…", output, flags=re.MULTILINE)


def check_command(words: Sequence[str]) -> None:
    """Fail if a command line has an unknown option or option value."""
    words = list(itertools.takewhile(lambda word: word not in (">", "|"), words))
    if words[0] == "uvx":
        words = words[words.index("workbench") :]
    if words[0] == "pytest":
        known = read_pytest_options()
        assert [word for word in words if word.startswith("--workbench") and word not in known] == []
    elif words[0] == "workbench":
        check_arguments(cli, list(words[1:]))
    else:
        assert words[0] in ("cd", ".", "mkdir", "pip", "pipx", "python", "python3"), words


def check_arguments(command: click.Command, arguments: list[str]) -> None:
    """Parse the arguments of a command without running it."""
    context = click.Context(command, token_normalize_func=lambda token: token.replace("_", "-"))
    if isinstance(command, click.Group):
        subcommand = command.get_command(context, arguments[0]) if arguments else None
        if subcommand is not None:
            check_arguments(subcommand, arguments[1:])
        else:
            assert len(arguments) <= 1, arguments  # a path to open
        return
    options, remaining, _ = command.make_parser(context).parse_args(arguments)
    assert remaining == []
    for parameter in command.params:
        value = options.get(parameter.name or "")
        if parameter.required:
            assert value, f"{command.name}: {parameter.name} is missing"
        if isinstance(parameter.type, click.Choice) and isinstance(value, str):
            parameter.type.convert(value, parameter, context)


def read_pytest_options() -> set[str]:
    """Return the options of the pytest plugin."""
    parser = MagicMock()
    pytest_plugin.pytest_addoption(parser)
    return {call.args[0] for call in parser.getgroup.return_value.addoption.call_args_list}


def test_the_table_lists_exactly_the_options_of_the_plugin() -> None:
    table = (ROOT / "docs" / "pytest.md").read_text(encoding="utf-8")

    assert set(re.findall(r"^\| `(--workbench[a-z-]*)", table, re.MULTILINE)) == read_pytest_options()
