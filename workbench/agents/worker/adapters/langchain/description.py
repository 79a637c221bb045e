"""What a LangChain agent says of itself, read from the objects: nothing of it runs."""

from __future__ import annotations

from typing import Any

from ...confidential import docstring_to_tell, schema_to_tell
from .structure import tools_of


def description_of(runnable: Any, *, name: str) -> dict[str, Any]:
    """The agent as the answer to `describe`. What its models are told is in the code of its nodes and prompts."""
    part = {
        "name": name,
        "type": type(runnable).__name__,
        "tools": [declaration_of(tool) for tool in tools_of(runnable)],
    }
    untold = [f"the instructions of {name} are in its code"]
    return {"agents": [{key: value for key, value in part.items() if value}], "untold": untold}


def declaration_of(tool: Any) -> dict[str, Any]:
    """What a model is told of a tool."""
    told = {"name": tool.name, "description": docstring_to_tell(getattr(tool, "func", None), tool.description or "")}
    try:
        schema = tool.tool_call_schema
        parameters = schema if isinstance(schema, dict) else schema.model_json_schema()
    except Exception:  # a schema of the user's own making
        return told
    return {**told, "parameters": schema_to_tell(parameters)}
