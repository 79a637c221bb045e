"""Scripts that answer where no model can be asked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import pytest

from workbench.llm.model_replay import read_script
from workbench.llm.model_types import Message, ModelError, ModelRequest, Trouble
from workbench.llm.models import ModelOptions, Models
from workbench.store.errors import StoreError


def script(tmp_path: Path, *rules: Any) -> Path:
    path = tmp_path / "script.json"
    path.write_text(json.dumps({"rules": list(rules)}), encoding="utf-8")
    return path


def request(text: str, *, purpose: str = "user") -> ModelRequest:
    return ModelRequest(model="gemini-x", messages=(Message(role="user", text=text),), purpose=purpose)


async def test_the_first_rule_that_fits_answers_with_what_its_last_expression_found(tmp_path: Path) -> None:
    path = script(
        tmp_path,
        {"for": "user", "when": ["nowhere"], "reply": "never"},
        {"for": "hallucinations_v1*", "when": ["<a>(.*?)</a>"], "reply": {"said": ["\\1"], "sure": True}},
        {"for": "user", "when": ["PLAN", "rolled (?P<n>\\d+)"], "reply": "is \\g<n> prime?", "note": "asks"},
        {"reply": "whatever"},
    )
    asked = read_script(path)

    assert (await asked.ask(request("the plan: rolled 7"))).text == "is 7 prime?"
    assert (await asked.ask(request("rolled 7"))).text == "whatever"
    judged = await asked.ask(request('<a>one\n"two"</a>', purpose="hallucinations_v1:sentences"))
    assert json.loads(judged.text) == {"said": ['one\n"two"'], "sure": True}
    assert judged.scripted


async def test_a_request_without_a_rule_is_told_with_its_purpose(tmp_path: Path) -> None:
    asked = read_script(script(tmp_path, {"for": "user", "when": ["x"], "reply": "y"}))

    with pytest.raises(ModelError, match=r"script\.json has no rule that fits .* 'safety_v1'") as caught:
        await asked.ask(request("x the end", purpose="safety_v1"))
    assert caught.value.trouble is Trouble.NOT_RECORDED


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{", "no JSON"),
        ("[]", "no list of rules"),
        ('{"rules": [{"for": "user"}]}', r"rules\[0\]: expected an object with a reply"),
        ('{"rules": [{"reply": "a", "wen": []}]}', "unknown key 'wen'"),
        ('{"rules": [{"reply": "a", "when": ["("]}]}', r"rules\[0\]\.when: found no regular expression"),
        ('{"rules": [{"reply": "a", "when": "x"}]}', 'a list of expressions as "when"'),
    ],
)
def test_a_script_that_is_none_is_refused_with_its_place(tmp_path: Path, text: str, expected: str) -> None:
    path = tmp_path / "script.json"
    path.write_text(text)

    with pytest.raises(StoreError, match=expected):
        read_script(path)


async def test_a_reply_that_names_a_group_that_is_not_there_says_so(tmp_path: Path) -> None:
    asked = read_script(script(tmp_path, {"when": ["x"], "reply": "\\2"}))

    with pytest.raises(ModelError, match="cannot be filled in"):
        await asked.ask(request("x"))


async def test_only_models_without_a_key_are_scripted_and_their_answers_are_not_kept(tmp_path: Path) -> None:
    kept: list[str] = []

    class Replies:
        async def get(self, key: str) -> None:
            return None

        async def put(self, request: ModelRequest, reply: Any) -> None:
            kept.append(request.key)

    asked = read_script(script(tmp_path, {"reply": "scripted"}))
    models = Models({}, replies=cast("Any", Replies()), script=asked)

    assert (await models.ask(request("x"))).text == "scripted"
    assert not kept
    environment = {"GOOGLE_API_KEY": "k", "GOOGLE_GEMINI_BASE_URL": "http://127.0.0.1:9"}
    with_key = Models(environment, ModelOptions(tries=1), script=asked)
    with pytest.raises(ModelError):
        await with_key.ask(request("x"))
    await with_key.close()


async def test_an_expression_that_takes_too_long_answers_nothing(tmp_path: Path) -> None:
    asked = read_script(script(tmp_path, {"for": "user", "when": ["^(a|aa)+$(?!\n)"], "reply": "y"}))

    with pytest.raises(ModelError, match=r"script\.json: the regular expression .* needs more than"):
        await asked.ask(request("a" * 80 + "!"))
