"""Injected answers: given in place of the tool, by arguments and chance, without touching the agent's code."""

from __future__ import annotations

from typing import Any

import pytest

from .conftest import Project, said, sources, tool_spans

LOST = {"injected_error": {"injected_http_error_code": 503, "error_message": "down"}}


def tool(name: str, *injections: dict[str, Any], **others: Any) -> dict[str, Any]:
    return {"tool_name": name, "injection_configs": list(injections), **others}


@pytest.mark.parametrize("isolation", ["case", "worker"])
def test_a_simulated_tool_answers_and_is_not_called(project: Project, isolation: Any) -> None:
    project.settings('simulate_tools = "environment.json"')
    project.environment(tool("get_order", {"injected_response": {"status": "MADE UP"}}))
    project.cases(one='get_order {"order_id": "7"}\ncancel_order {"order_id": "7"}')

    run = project.run(isolation=isolation)

    assert said(run) == ['{"status": "MADE UP"}; {"cancelled": "7"}']
    assert project.called == ["cancel_order 7"]
    assert sources(run) == ["injected", None]
    assert [span.request for span in tool_spans(run)] == [{"order_id": "7"}] * 2
