"""Scripted replies for models that cannot be called."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import pytest

from workbench.llm.model_replay import read_script
from workbench.llm.model_types import Message, ModelError, ModelRequest, Trouble
from workbench.llm.models import ModelOptions, Models
from workbench.store.errors import StoreError


def write_script(tmp_path: Path, *rules: Any) -> Path:
    path = tmp_path / "script.json"
    path.write_text(json.dumps({"rules": list(rules)}), encoding="utf-8")
    return path


def request(text: str, *, purpose: str = "user") -> ModelRequest:
    return ModelRequest(model="gemini-x", messages=(Message(role="user", text=text),), purpose=purpose)


async def test_the_first_matching_rule_replies_with_groups_of_its_last_expression(tmp_path: Path) -> None:
    path = write_script(
        tmp_path,
        {"for": "user", "when": ["nowhere"], "reply": "never"},
        {"for": "hallucinations_v1*", "when": ["<a>(.*?)</a>"], "reply": {"said": ["\\1"], "sure": True}},
        {"for": "user", "when": ["PLAN", "rolled (?P<n>\\d+)"], "reply": "is \\g<n> prime?", "note": "asks"},
        {"reply": "whatever"},
    )
    model_script = read_script(path)

    assert (await model_script.ask(request("the plan: rolled 7"))).text == "is 7 prime?"
    assert (await model_script.ask(request("rolled 7"))).text == "whatever"
    judge_reply = await model_script.ask(request('<a>one\n"two"</a>', purpose="hallucinations_v1:sentences"))
    assert json.loads(judge_reply.text) == {"said": ['one\n"two"'], "sure": True}
    assert judge_reply.scripted


async def test_a_request_without_a_matching_rule_raises_with_its_purpose(tmp_path: Path) -> None:
    model_script = read_script(write_script(tmp_path, {"for": "user", "when": ["x"], "reply": "y"}))

    with pytest.raises(ModelError, match=r"script\.json has no rule that fits .* 'safety_v1'") as caught:
        await model_script.ask(request("x the end", purpose="safety_v1"))
    assert caught.value.trouble is Trouble.NOT_RECORDED


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{", "not JSON"),
        ("[]", "no list of rules"),
        ('{"rules": [{"for": "user"}]}', r"rules\[0\]: expected an object with a reply"),
        ('{"rules": [{"reply": "a", "wen": []}]}', "unknown key 'wen'"),
        ('{"rules": [{"reply": "a", "when": ["("]}]}', r"rules\[0\]\.when: expected a regular expression"),
        ('{"rules": [{"reply": "a", "when": "x"}]}', 'a list of expressions as "when"'),
    ],
)
def test_an_invalid_script_is_refused_with_its_position(tmp_path: Path, text: str, expected: str) -> None:
    path = tmp_path / "script.json"
    path.write_text(text)

    with pytest.raises(StoreError, match=expected):
        read_script(path)


async def test_a_reply_with_an_unknown_group_is_an_error(tmp_path: Path) -> None:
    model_script = read_script(write_script(tmp_path, {"when": ["x"], "reply": "\\2"}))

    with pytest.raises(ModelError, match="cannot be rendered"):
        await model_script.ask(request("x"))


async def test_only_models_without_a_key_are_scripted_and_never_cached(tmp_path: Path) -> None:
    cached_keys: list[str] = []

    class Replies:
        async def get(self, key: str) -> None:
            return None

        async def put(self, request: ModelRequest, reply: Any) -> None:
            cached_keys.append(request.key)

    model_script = read_script(write_script(tmp_path, {"reply": "scripted"}))
    models = Models({}, replies=cast("Any", Replies()), script=model_script)

    assert (await models.ask(request("x"))).text == "scripted"
    assert not cached_keys
    environment = {"GOOGLE_API_KEY": "k", "GOOGLE_GEMINI_BASE_URL": "http://127.0.0.1:9"}
    with_key = Models(environment, ModelOptions(tries=1), script=model_script)
    with pytest.raises(ModelError):
        await with_key.ask(request("x"))
    await with_key.close()


async def test_a_rule_whose_expression_takes_too_long_is_an_error(tmp_path: Path) -> None:
    model_script = read_script(write_script(tmp_path, {"for": "user", "when": ["^(a|aa)+$(?!\n)"], "reply": "y"}))

    with pytest.raises(ModelError, match=r"script\.json: the regular expression .* needs more than"):
        await model_script.ask(request("a" * 80 + "!"))
