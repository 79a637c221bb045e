"""The command `schema`: JSON Schemas with which editors check and complete our files."""

from __future__ import annotations

from typing import Literal

import click

from workbench.cli.console import write_text


@click.command()
@click.argument("kind", type=click.Choice(["evalset", "config", "test-config", "run"]))
def schema(kind: Literal["evalset", "config", "test-config", "run"]) -> int:
    """Print the JSON Schema of a kind of file, for editors.

    \b
    evalset:     eval sets (*.evalset.json, *.test.json)
    config:      workbench.toml
    test-config: criteria (test_config.json and other eval configs)
    run:         the report of `workbench run --format json`
    """
    import json

    from workbench.engine import schemas

    match kind:
        case "evalset":
            document = schemas.evalset_schema()
        case "config":
            from workbench.tui.keys import KEY_ACTIONS

            document = schemas.config_schema({action.id: action.description for action in KEY_ACTIONS})
        case "test-config":
            document = schemas.criteria_schema()
        case "run":
            document = schemas.run_schema()
    write_text(json.dumps(document, indent=2) + "\n")
    return 0
