"""Update the generated parts of the documentation: `python tests/docs/make.py`.

A generated part of a page is between `<!-- generated -->` and `<!-- end of generated -->`: the commands in
`docs/cli.md`, the settings in `docs/configuration.md`, the keys in `docs/keys.md`. Other text stays unchanged.
"""

from __future__ import annotations

import ast
import html
import inspect
import re
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import click

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
BEGIN = "<!-- generated: python tests/docs/make.py -->"
END = "<!-- end of generated -->"


def describe_commands() -> Iterator[str]:
    """Yield the lines of every command with its arguments, help and options."""
    from workbench.cli.main import cli

    for name in cli.list_commands(click.Context(cli)):
        command = cli.get_command(click.Context(cli), name)
        assert command is not None
        yield from _describe_command(command, ("workbench", name))


def _describe_command(command: click.Command, path: tuple[str, ...]) -> Iterator[str]:
    context = click.Context(command, info_name=" ".join(path))
    yield f"{'#' * len(path)} {' '.join(path)}"
    yield ""
    yield _format_help(command.help or "")
    yield ""
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            subcommand = command.get_command(context, name)
            assert subcommand is not None
            yield from _describe_command(subcommand, (*path, name))
        return
    yield "```text"
    yield " ".join([context.command_path, *command.collect_usage_pieces(context)])
    yield "```"
    yield ""
    records = [
        record
        for parameter in command.params
        if isinstance(parameter, click.Option) and (record := parameter.get_help_record(context)) is not None
    ]
    yield from _format_table(
        ("option", "meaning"),
        ((_format_code(option), _format_help(meaning).replace("|", "&#124;")) for option, meaning in records),
    )


def describe_settings() -> Iterator[str]:
    """Yield the lines of every table of `workbench.toml` with its keys."""
    from workbench.store import settings

    tables: Mapping[str, type] = {
        "[targets.NAME]": settings.TargetSettings,
        "[targets.NAME.a2a]": settings.A2aSettings,
        "[targets.NAME.http]": settings.HttpSettings,
        "[targets.NAME.command]": settings.CommandSettings,
        "[run]": settings.RunSettings,
        "[run.ray]": settings.RaySettings,
        "[judge]": settings.JudgeSettings,
        '[judge.prices."MODEL"]': settings.PriceSettings,
        "[simulation]": settings.SimulationSettings,
        "[replay]": settings.ReplaySettings,
        "[watch]": settings.WatchSettings,
        "[tui]": settings.TuiSettings,
    }
    for name, section in tables.items():
        yield f"### `{name}`"
        yield ""
        descriptions = _read_descriptions(section)
        yield from _format_table(
            ("key", "type", "default", "meaning"),
            (
                (f"`{key}`", _describe_type(field.annotation), _format_default(field), descriptions[key])
                for key, field in section.model_fields.items()  # type: ignore[attr-defined]
                if not _is_table(field.annotation)
            ),
        )


def describe_keys() -> Iterator[str]:
    """Yield the lines of every key action, grouped by the part of the screen that handles it."""
    from workbench.tui.keys import PLACES

    for place in PLACES.values():
        if not place.actions:
            continue
        yield f"## {place.title}"
        yield ""
        yield from _format_table(
            ("action", "keys", "does"),
            (
                (f"`{each.id}`", " ".join(f"`{key}`" for key in each.keys.split(",")), each.help)
                for each in place.actions
            ),
        )


PARTS: Mapping[str, Callable[[], Iterator[str]]] = {
    "cli.md": describe_commands,
    "configuration.md": describe_settings,
    "keys.md": describe_keys,
}
"""The pages with a generated part, and the functions that generate it."""


def generate_page(name: str) -> str:
    """Return the text of a page with an updated generated part."""
    text = (DOCS / name).read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n" + "\n".join(PARTS[name]()).rstrip() + f"\n\n{END}{after}"


def _format_table(head: tuple[str, ...], rows: Iterator[tuple[str, ...]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    for row in rows:
        yield f"| {' | '.join(row)} |"
    yield ""


def _format_code(text: str) -> str:
    """Format code for a table cell. Markdown renderers disagree about pipes, so a pipe becomes an entity."""
    return f"<code>{html.escape(text).replace('|', '&#124;')}</code>" if "|" in text else f"`{text}`"


def _format_help(help_text: str) -> str:
    """Put each paragraph of a help text on one line; paragraphs that click does not wrap (`\\b`) become code."""
    paragraphs = []
    for paragraph in inspect.cleandoc(help_text).split("\n\n"):
        if paragraph.startswith("\b\n"):
            paragraphs.append(f"```text\n{paragraph[2:]}\n```")
        else:
            paragraphs.append(re.sub(r"\s+", " ", paragraph).replace("<", "&lt;"))
    return "\n\n".join(paragraphs)


def _read_descriptions(section: type) -> dict[str, str]:
    """Return the docstrings below the fields of a class."""
    (body,) = ast.parse(textwrap.dedent(inspect.getsource(section))).body
    assert isinstance(body, ast.ClassDef)
    found: dict[str, str] = {}
    for field, text in zip(body.body, body.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant):
            assert isinstance(field.target, ast.Name)
            found[field.target.id] = re.sub(r"\s+", " ", str(text.value.value)).strip()
    return found


def _describe_type(annotation: Any) -> str:
    """Describe a type in terms of TOML."""
    if get_origin(annotation) is Literal:
        return ", ".join(f"`{value}`" for value in get_args(annotation))
    parts = [part for part in get_args(annotation) if part is not type(None)]
    if get_origin(annotation) is tuple:
        return "list of texts"
    if get_origin(annotation) is dict:
        return {str: "table of texts", float: "table of numbers"}.get(parts[1], "table")
    if parts:
        return _describe_type(parts[0])
    return {str: "text", int: "whole number", float: "number", bool: "true or false", Any: "text or table"}[annotation]


def _format_default(field: Any) -> str:
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    if value in (None, "", (), {}):
        return ""
    if isinstance(value, dict):
        return f"`{{{', '.join(f'{key} = {each:g}' for key, each in value.items())}}}`"
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def _is_table(annotation: Any) -> bool:
    """Return whether a key is a table with its own section."""
    return any(hasattr(part, "model_fields") for part in (annotation, *get_args(annotation)))


def main() -> None:
    """Write all pages with generated parts."""
    for name in PARTS:
        (DOCS / name).write_text(generate_page(name), encoding="utf-8")
        print(DOCS / name)


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    main()
