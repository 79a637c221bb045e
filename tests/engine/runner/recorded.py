"""Agents that ask a model on this machine, with any client."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.engine.project import Project, find_result, turn
from tests.serving import ModelServer, run_model_server
from workbench.model.results import ModelCalls

URLLIB = """
        import json, urllib.request
        request = urllib.request.Request(url, data=json.dumps(body).encode(), headers=headers)
        return json.load(urllib.request.urlopen(request))
"""


KEY = "sk-averysecretkey-0123456789"


CLIENTS = {
    "httpx": "import httpx; return httpx.post(url, json=body, headers=headers).json()",
    "httpx2": "import httpx2; return httpx2.post(url, json=body, headers=headers).json()",
    "httpx_stream": """
        import httpx, json
        with httpx.stream("POST", url, json=body, headers=headers) as response:
            return json.loads("".join(response.iter_text()))
    """,
    "httpx_async": """
        import asyncio, httpx
        async def ask():
            async with httpx.AsyncClient() as client:
                return (await client.post(url, json=body, headers=headers)).json()
        return asyncio.run(ask())
    """,
    "requests": "import requests; return requests.post(url, json=body, headers=headers).json()",
    "requests_stream": """
        import json, requests
        response = requests.post(url, json=body, headers=headers, stream=True)
        return json.loads(b"".join(response.iter_content(7)))
    """,
    "urllib3": "import urllib3; return urllib3.PoolManager().request('POST', url, json=body, headers=headers).json()",
    "aiohttp": """
        import aiohttp, asyncio
        async def ask():
            async with aiohttp.ClientSession() as session, session.post(url, json=body, headers=headers) as response:
                return await response.json()
        return asyncio.run(ask())
    """,
    "aiohttp_stream": """
        import aiohttp, asyncio, json
        async def ask():
            async with aiohttp.ClientSession() as session, session.post(url, json=body, headers=headers) as response:
                return json.loads(b"".join([chunk async for chunk, _ in response.content.iter_chunks()]))
        return asyncio.run(ask())
    """,
}


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with run_model_server(secret=KEY) as server:
        yield server


def address_of(server: ModelServer) -> str:
    return f"{server.url}/v1/chat/completions?key={KEY}"


def write_agent(project: Project, server: ModelServer, client: str = CLIENTS["httpx"], *, more: str = "") -> None:
    """Write an agent that says what the model says, which gets `more` in its request."""
    body = "{'messages': [{'role': 'system', 'content': 'Be nice.'}, {'role': 'user', 'content': prompt}]"
    lines = [line[8:] if line.startswith("        ") else line for line in client.strip("\n").splitlines()]
    (project.root / "agent.py").write_text(
        "def ask(prompt):\n"
        f"    url, headers = {address_of(server)!r}, {{'Authorization': 'Bearer {KEY}'}}\n"
        f"    body = {body}{more}}}\n" + "".join(f"    {line}\n" for line in lines) + "\n"
        "def answer(prompt):\n"
        "    said = ask(prompt)['choices'][0]['message']['content']\n"
        "    return {'response': said, 'predicted_trajectory': []}\n"
    )


def get_response(run: Any, eval_id: str = "a", turn: int = 0) -> str:
    response = find_result(run, eval_id).execution.turns[turn].invocation.final_response
    assert response is not None
    return response.text()


def get_calls(run: Any, eval_id: str = "a") -> ModelCalls:
    calls = find_result(run, eval_id).execution.model_calls
    assert calls is not None
    return calls


@pytest.fixture
def case(project: Project) -> Project:
    project.add_set({"a": [turn("hello"), turn("again")]})
    project.add_criteria(tool_trajectory_avg_score=0.0)
    return project
