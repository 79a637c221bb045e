"""New eval sets, scenarios as cases, migration."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from uuid import UUID

import pytest

from workbench.store.documents import EvalSetDocument, add_scenarios, migrate, new_eval_set, read_scenarios
from workbench.store.errors import StoreError


def test_a_new_set_is_empty_and_never_replaces_a_file(tmp_path: Path) -> None:
    path = tmp_path / "tea_1.evalset.json"

    document = new_eval_set(path, "tea_1")

    data = json.loads(path.read_text())
    assert list(data) == ["eval_set_id", "name", "eval_cases", "creation_timestamp"]
    assert (data["eval_set_id"], data["eval_cases"], len(document)) == ("tea_1", [], 0)
    with pytest.raises(StoreError, match="it exists already"):
        new_eval_set(path, "tea_1")
    with pytest.raises(StoreError, match="letters, digits and underscores"):
        new_eval_set(tmp_path / "b.json", "a/b")


def test_scenarios_become_cases_once_and_everything_else_keeps_its_bytes(own: Callable[[str], Path]) -> None:
    path = own("comments.evalset.json")
    old = path.read_text()
    scenarios, session_input = own("scenarios.json"), own("session_input.json")

    first = add_scenarios(path, scenarios, session_input_file=session_input)
    added = path.read_text()
    second = add_scenarios(path, scenarios, session_input_file=session_input)

    assert [case.added for case in first] == [True, True] and [case.added for case in second] == [False, False]
    assert path.read_text() == added
    last = "    } # the last"
    start, end = old.split(last)
    assert added.startswith(start + '    }, # the last\n    {\n      "eval_id": ')
    assert added.endswith(end)
    document = EvalSetDocument.open(path)
    assert document.case(3).conversation_scenario.user_persona.id == "HURRIED"
    assert document.case(2).session_input.app_name == "kitchen"


def test_the_id_of_a_scenario_is_the_hash_adk_takes(own: Callable[[str], Path]) -> None:
    ids = [scenario.eval_id for scenario in read_scenarios(own("scenarios.json"))]

    assert ids == ["0af0ab24", "0b78eb07"]  # as google-adk 2.13 computes them


@pytest.mark.needs_adk
def test_adk_gives_scenarios_the_same_ids(own: Callable[[str], Path]) -> None:
    import hashlib

    from google.adk.evaluation.conversation_scenarios import ConversationScenario

    for scenario in read_scenarios(own("scenarios.json")):
        theirs = json.dumps(ConversationScenario.model_validate(scenario.data).model_dump(), sort_keys=True)
        assert scenario.eval_id == hashlib.sha256(theirs.encode()).hexdigest()[:8]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"scenarios": {}}', "scenarios: found an object, expected a list"),
        ('[{"starting_prompt": "a"}]', r"1:2: \[0\]: found nothing, expected conversation_plan"),
        ('{"starting_prompt": 1, "conversation_plan": "b"}', "1:21: starting_prompt: found 1, expected a text"),
        ("5", "found 5, expected a list of conversation scenarios"),
    ],
)
def test_wrong_scenarios_add_nothing(
    own: Callable[[str], Path], file: Callable[..., Path], content: str, message: str
) -> None:
    path = own("kettle.evalset.json")
    old = path.read_bytes()

    with pytest.raises(StoreError, match=message):
        add_scenarios(path, file(content, "s.json"), session_input_file=own("session_input.json"))

    assert path.read_bytes() == old


def test_a_session_input_must_name_app_and_user(own: Callable[[str], Path], file: Callable[..., Path]) -> None:
    with pytest.raises(StoreError, match="found nothing, expected user_id"):
        add_scenarios(
            own("kettle.evalset.json"),
            own("scenarios.json"),
            session_input_file=file('{"app_name": "a"}', "session.json"),
        )


def test_migration_writes_ids_times_and_roles_and_says_what_it_leaves_behind(
    file: Callable[..., Path], own: Callable[[str], Path], tmp_path: Path
) -> None:
    old = file(
        '[{"query": "a", "reference": "b", "score": 1, "expected_tool_use": [{"tool_name": "f"}]}]', "old.test.json"
    )
    new = tmp_path / "my new.evalset.json"

    left = migrate(old, new, initial_session=own("session_input.json"))

    data = json.loads(new.read_text())
    (case,) = data["eval_cases"]
    (turn,) = case["conversation"]
    assert left == ("[0].score",)
    assert (data["eval_set_id"], case["eval_id"]) == ("my new", "old")
    assert case["session_input"] == {"app_name": "kitchen", "user_id": "u", "state": {}}
    assert UUID(turn["invocation_id"]).version == 4 and turn["creation_timestamp"] > 1.7e9
    assert (turn["user_content"]["role"], turn["final_response"]["role"]) == ("user", "model")
    assert turn["intermediate_data"]["tool_uses"] == [{"name": "f"}]


def test_migration_refuses_what_it_cannot_carry_and_what_exists(
    own: Callable[[str], Path], file: Callable[..., Path], tmp_path: Path
) -> None:
    with pytest.raises(StoreError, match="found an eval set in the current format"):
        migrate(own("kettle.evalset.json"), tmp_path / "new.json")
    with pytest.raises(StoreError, match=r"1:14: \[0\].query: found 5, expected a text"):
        migrate(file('[   {"query":5}]', "old.json"), tmp_path / "new.json")
    existing = file("mine", "mine.json")
    with pytest.raises(StoreError, match="it exists already"):
        migrate(own("legacy_turns.test.json"), existing)

    assert existing.read_text() == "mine"
    assert not (tmp_path / "new.json").exists()
