"""A project whose only criterion is judged by a model on a local server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.llm.servers import Answer, Call, HttpResponse, Server, gemini, run_server
from tests.watch.watched import Folder

METRIC = "final_response_match_v2"
SAMPLES = 2
AGENT = """
import pathlib
def answer(prompt):
    with pathlib.Path(__file__).with_name("calls.txt").open("a") as calls:
        calls.write(prompt + "\\n")
    return prompt.upper()
"""


def verdict(call: Call) -> HttpResponse:
    """Judge an answer as valid if it says GOOD."""
    text = call.body["contents"][0]["parts"][0]["text"]
    return gemini(json.dumps({"reasoning": "r", "verdict": "valid" if "<agent_answer>\nGOOD" in text else "invalid"}))


@contextmanager
def serve_judge(monkeypatch: pytest.MonkeyPatch, answer: Answer = verdict) -> Iterator[Server]:
    """Serve all Google models on a local server, and set a key."""
    monkeypatch.delenv("GEMINI_API_KEY", raising=False)
    monkeypatch.delenv("GOOGLE_GENAI_USE_VERTEXAI", raising=False)
    monkeypatch.setenv("GOOGLE_API_KEY", "k")
    with run_server(answer) as server:
        monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", server.url)
        yield server


def make_judged_folder(root: Path, *, model: str = "gemini-2.5-flash", settings: str = "", **prompts: str) -> Folder:
    """Make a project whose agent records its prompts and answers in capitals."""
    folder = Folder(root)
    folder.write("agent.py", AGENT)
    folder.write(
        "workbench.toml",
        '[targets.sample]\nkind = "function"\ntarget = "agent:answer"\neval_sets = ["*.evalset.json"]\n'
        f'[judge]\nmodel = "{model}"\ntries = 1\n{settings}',
    )
    folder.cases(**prompts)
    folder.criteria(**{METRIC: {"threshold": 1.0, "judge_model_options": {"num_samples": SAMPLES}}})
    return folder


def list_agent_prompts(folder: Folder) -> list[str]:
    """Return the prompts of all agent runs, in alphabetical order."""
    path = folder.root / "calls.txt"
    return sorted(path.read_text().splitlines()) if path.exists() else []
