"""The ADK sample agent answers offline from a script, and its verdicts match its manifest."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.agents.worker.adapters.adk.conftest import Conversation, converse
from workbench.agents.worker.adapters import adk
from workbench.model.evalset import EvalCase
from workbench.model.trace import SpanKind, get_trajectory
from workbench.store.evalsets.evalset_document import EvalSetDocument

pytestmark = pytest.mark.needs_adk

SAMPLES = Path(__file__).parents[5] / "sample_agents"
FOLDER = SAMPLES / "hello_world_adk"
EXPECTED: dict[str, dict[str, str]] = json.loads((FOLDER / "expected.json").read_text("utf-8"))


def read_cases(name: str) -> list[EvalCase]:
    document = EvalSetDocument.open(FOLDER / name)
    return [document.case(entry.index) for entry in document.entries]


def list_parameters() -> list[Any]:
    parameters = []
    for name in EXPECTED:
        for case in read_cases(name):
            parameters.append(pytest.param(case, EXPECTED[name][case.eval_id], id=f"{name}:{case.eval_id}"))
    return parameters


@pytest.fixture
def sample(monkeypatch: pytest.MonkeyPatch) -> adk.Adapter:
    monkeypatch.syspath_prepend(str(SAMPLES))
    return adk.Adapter(
        {"kind": "adk", "name": "x", "location": "hello_world_adk", "path": str(SAMPLES), "env_file": None}
    )


async def run(sample: adk.Adapter, case: EvalCase) -> Conversation:
    assert case.conversation is not None
    assert case.session_input is not None
    prompts = [invocation.user_content.text() for invocation in case.conversation]
    return await converse(sample, *prompts, state=case.session_input.state)


@pytest.mark.parametrize(("case", "verdict"), list_parameters())
async def test_the_verdict_of_a_case_matches_the_manifest(sample: adk.Adapter, case: EvalCase, verdict: str) -> None:
    conversation = await run(sample, case)

    if verdict == "ERROR":
        assert isinstance(conversation.error, ValueError)
        assert len(conversation.turns) == 1
        return
    assert conversation.error is None
    assert case.conversation is not None
    matches = [
        get_trajectory(turn.invocation) == get_trajectory(expected)
        and turn.invocation.final_response.text() == expected.final_response.text()
        for turn, expected in zip(conversation.turns, case.conversation, strict=True)
    ]
    assert all(matches) == (verdict == "PASSED")


def test_every_case_is_in_the_manifest_and_its_name_shows_its_designed_verdict() -> None:
    files = {path.name for path in FOLDER.glob("*.json")} - {"expected.json", "test_config.json"}
    assert set(EXPECTED) == files
    for name in files:
        eval_ids = [case.eval_id for case in read_cases(name)]
        assert eval_ids == list(EXPECTED[name])
    for verdicts in EXPECTED.values():
        for eval_id, verdict in verdicts.items():
            prefix = "designed_error_" if verdict == "ERROR" else "designed_failure_" if verdict == "FAILED" else ""
            assert eval_id.startswith(prefix or eval_id)
            assert eval_id.startswith("designed_") == bool(prefix)


async def test_every_answer_says_that_it_comes_from_a_script(sample: adk.Adapter) -> None:
    conversation = await converse(sample, "Who are you?", "Sing me a song", "Roll a die")

    assert all("from a script" in turn.invocation.final_response.text() for turn in conversation.turns[:2])
    models = conversation.find_spans(SpanKind.MODEL)
    assert {model.response["model_version"] for model in models} == {"script"}


@pytest.mark.parametrize(
    ("environment", "model"),
    [
        ({}, "script"),
        ({"GOOGLE_API_KEY": "k"}, "gemini"),
        ({"GEMINI_API_KEY": "k"}, "gemini"),
        ({"GOOGLE_GENAI_USE_VERTEXAI": "TRUE"}, "gemini"),
        ({"GOOGLE_API_KEY": "k", "HELLO_WORLD_MODEL": "script"}, "script"),
        ({"HELLO_WORLD_MODEL": "gemini-exp"}, "gemini-exp"),
    ],
)
def test_gemini_is_used_only_if_a_key_is_set(
    sample: adk.Adapter, monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], model: str
) -> None:
    sample.load()
    from hello_world_adk.agent import choose_model

    for key, value in environment.items():
        monkeypatch.setenv(key, value)

    choice = choose_model()
    assert (choice if isinstance(choice, str) else choice.model).startswith(model)
