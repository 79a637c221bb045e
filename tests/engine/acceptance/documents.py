"""An eval set with one turn, and executions of its case."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from workbench.engine.acceptance import accept, find_hunks
from workbench.model.results import Execution
from workbench.store.evalsets.evalset_document import EvalSetDocument

TEXT = """\
{
  "eval_set_id": "lights",
  "eval_cases": [
    {
      "eval_id": "off",
      "conversation": [
        {
          "user_content": {"parts": [{"text": "Turn it off"}], "role": "user"},
          "final_response": {"parts": [{"text": "The lamp is off."}], "role": "model"},
          "intermediate_data": {
            "tool_uses": [
              {"name": "look", "args": {"room": "Bedroom"}}, // first
              {"name": "set_device", "args": {"id": "lamp", "status": "OFF", "deep": {"level":  1, "x": 1}}}
            ]
          }
        }
      ],
      "final_session_state": {"lamp": "off", "seen": true}
    }
  ]
}
"""


def open_document(text: str = TEXT) -> EvalSetDocument:
    return EvalSetDocument(Path("set.evalset.json"), text.encode(), None)


def make_execution(
    *calls: Any, response: Any = "The lamp is off.", prompt: str = "Turn it off", **more: Any
) -> Execution:
    """Make the execution of one turn. Its calls are (name, arguments)."""
    parts = response if isinstance(response, list) else [{"text": response}]
    turn = {
        "user_content": {"parts": [{"text": prompt}]},
        "final_response": {"parts": parts},
        "intermediate_data": {
            "tool_uses": [{"id": f"call-{i}", "name": name, "args": args} for i, (name, args) in enumerate(calls)],
            "tool_responses": [
                {"id": f"call-{i}", "name": name, "response": {"ok": 1}} for i, (name, _) in enumerate(calls)
            ],
        },
    }
    state = {"lamp": "off", "seen": True}
    return Execution.model_validate(
        {"turns": [{"invocation": turn, "duration_seconds": 0.1}], "final_state": state, **more}
    )


def accept_all(execution: Execution, text: str = TEXT) -> EvalSetDocument:
    document = open_document(text)
    accept(document, 0, find_hunks(document.case(0), execution), execution)
    assert find_hunks(document.case(0), execution) == ()
    return document
