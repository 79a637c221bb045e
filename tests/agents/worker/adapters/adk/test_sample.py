"""The sample agent of ADK answers offline, alike each time, says so, and comes out as its manifest tells."""

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


def cases_in(name: str) -> list[EvalCase]:
    document = EvalSetDocument.open(FOLDER / name)
    return [document.case(entry.index) for entry in document.entries]


def cases() -> list[Any]:
    found = []
    for name in EXPECTED:
        for case in cases_in(name):
            found.append(pytest.param(case, EXPECTED[name][case.eval_id], id=f"{name}:{case.eval_id}"))
    return found


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


@pytest.mark.parametrize(("case", "verdict"), cases())
async def test_a_case_comes_out_as_the_manifest_tells(sample: adk.Adapter, case: EvalCase, verdict: str) -> None:
    conversation = await run(sample, case)

    if verdict == "ERROR":
        assert isinstance(conversation.error, ValueError)
        assert len(conversation.turns) == 1
        return
    assert conversation.error is None
    assert case.conversation is not None
    as_expected = [
        get_trajectory(turn.invocation) == get_trajectory(wanted)
        and turn.invocation.final_response.text() == wanted.final_response.text()
        for turn, wanted in zip(conversation.turns, case.conversation, strict=True)
    ]
    assert all(as_expected) == (verdict == "PASSED")


def test_every_case_is_in_the_manifest_and_designed_outcomes_are_in_their_names() -> None:
    files = {path.name for path in FOLDER.glob("*.json")} - {"expected.json", "test_config.json"}
    assert set(EXPECTED) == files
    for name in files:
        listed = [case.eval_id for case in cases_in(name)]
        assert listed == list(EXPECTED[name])
    for verdicts in EXPECTED.values():
        for eval_id, verdict in verdicts.items():
            named = "designed_error_" if verdict == "ERROR" else "designed_failure_" if verdict == "FAILED" else ""
            assert eval_id.startswith(named or eval_id)
            assert eval_id.startswith("designed_") == bool(named)


async def test_every_answer_says_that_it_comes_from_a_script(sample: adk.Adapter) -> None:
    conversation = await converse(sample, "Who are you?", "Sing me a song", "Roll a die")

    assert all("from a script" in turn.invocation.final_response.text() for turn in conversation.turns[:2])
    models = conversation.named(SpanKind.MODEL)
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
def test_gemini_is_asked_only_where_a_key_is_set(
    sample: adk.Adapter, monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], model: str
) -> None:
    sample.load()
    from hello_world_adk.agent import choose_model

    for key, value in environment.items():
        monkeypatch.setenv(key, value)

    chosen = choose_model()
    assert (chosen if isinstance(chosen, str) else chosen.model).startswith(model)
