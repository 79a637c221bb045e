"""Recorded model calls on the screen: replayed by default, asked again by a key, and said above the case."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.llm.servers import Call, HttpResponse, run_server

pytestmark = pytest.mark.needs_fork

AGENT = """
import httpx

def answer(prompt):
    body = {{"model": "m", "messages": [{{"role": "user", "content": prompt}}]}}
    said = httpx.post("{url}/v1/chat/completions", json=body).json()
    return {{"response": said["choices"][0]["message"]["content"], "predicted_trajectory": []}}
"""


def reply(_: Call) -> HttpResponse:
    return HttpResponse({"choices": [{"message": {"role": "assistant", "content": "hello"}}]})


async def test_models_are_replayed_unless_they_are_asked_again(tmp_path: Path, open_app: Any) -> None:
    (tmp_path / "workbench.toml").write_text(
        '[targets.a]\nkind = "function"\ntarget = "agent:answer"\neval_sets = ["s.evalset.json"]\n'
    )
    user, model = ({"role": role, "parts": [{"text": "hello"}]} for role in ("user", "model"))
    cases = [{"eval_id": "greets", "conversation": [{"user_content": user, "final_response": model}]}]
    (tmp_path / "s.evalset.json").write_text(json.dumps({"eval_set_id": "s", "eval_cases": cases}))
    (tmp_path / "test_config.json").write_text('{"criteria": {"response_match_score": 0.5}}')
    with run_server(reply) as server:
        (tmp_path / "agent.py").write_text(AGENT.format(url=server.url))
        async with open_app(tmp_path) as screen:
            await screen.until("greets")
            await screen.press("j", "j", "r")
            await screen.until("1 model call made, none replayed")
            await screen.press("r")
            await screen.until("1 of 1 model call replayed")
            assert len(server.calls) == 1

            await screen.press("alt+l")
            await screen.until("1 model call made, none replayed")
            assert len(server.calls) == 2
