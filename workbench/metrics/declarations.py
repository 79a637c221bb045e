"""The arguments that tools declare, as far as an agent reports the declarations that it gave to its models."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from typing import Any

from workbench.metrics.subject import Turn

ANYTHING = "*"
"""Stands for any argument in a tool's paths: at the end of a path that leads to an object without a schema."""

_COMBINING = ("$ref", "anyOf", "any_of", "oneOf", "allOf")
_DEPTH_AT_MOST = 8
_PLAIN = frozenset({"STRING", "INTEGER", "NUMBER", "BOOLEAN", "NULL"})


def declared_arguments(turns: Iterable[Turn]) -> Mapping[str, Set[str]]:
    """The arguments of each declared tool, as dotted paths; tools without a declaration are missing."""
    declared: dict[str, set[str]] = {}
    for turn in turns:
        details = (turn.actual.app_details or {}) if turn.actual is not None else {}
        agents = details.get("agent_details") or details.get("agentDetails")
        for agent in agents.values() if isinstance(agents, Mapping) else ():
            tools = agent.get("tool_declarations") or agent.get("toolDeclarations") if isinstance(agent, dict) else None
            for name, schema in _declarations(tools):
                declared.setdefault(name, set()).update(_paths(schema))
    return declared


def _declarations(tools: Any) -> Iterator[tuple[str, Any]]:
    """Names and parameters out of tool declarations as google.genai writes them."""
    for tool in tools if isinstance(tools, list) else ():
        functions = (
            tool.get("function_declarations") or tool.get("functionDeclarations") if isinstance(tool, dict) else ()
        )
        for function in functions if isinstance(functions, list) else ():
            if isinstance(function, dict) and isinstance(function.get("name"), str):
                schemas = (function.get(key) for key in _PARAMETERS)
                yield function["name"], next(filter(None, schemas), {"properties": {}})


def _is_plain(schema: Mapping[str, Any]) -> bool:
    """Whether it is the schema of a value without parts, such as a number."""
    types = schema.get("type")
    types = [types] if isinstance(types, str) else types if isinstance(types, list) else []
    return bool(types) and all(str(name).upper() in _PLAIN for name in types)


_PARAMETERS = ("parameters", "parameters_json_schema", "parametersJsonSchema")


def _paths(schema: Any, prefix: str = "", depth: int = 0) -> Iterator[str]:
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    if isinstance(schema, Mapping) and _is_plain(schema):
        return
    is_open = (
        not isinstance(properties, Mapping)
        or depth > _DEPTH_AT_MOST
        or any(key in schema for key in _COMBINING)
        or schema.get("additionalProperties", schema.get("additional_properties")) not in (None, False)
    )
    if is_open:
        yield f"{prefix}{ANYTHING}"
    for name, inner in properties.items() if isinstance(properties, Mapping) and depth <= _DEPTH_AT_MOST else ():
        yield f"{prefix}{name}"
        yield from _paths(inner, f"{prefix}{name}.", depth + 1)
