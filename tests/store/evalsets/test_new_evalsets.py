"""New eval sets, scenarios as cases, migration."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from workbench.store.errors import StoreError
from workbench.store.evalsets.evalset_document import EvalSetDocument
from workbench.store.evalsets.new_evalsets import (
    add_scenarios,
    create_eval_set,
    migrate,
    open_or_make_set,
    read_scenarios,
)


def test_a_new_set_is_empty_and_never_replaces_a_file(tmp_path: Path) -> None:
    path = tmp_path / "tea_1.evalset.json"

    document = create_eval_set(path, "tea_1")

    data = json.loads(path.read_text())
    assert list(data) == ["eval_set_id", "name", "eval_cases", "creation_timestamp"]
    assert (data["eval_set_id"], data["eval_cases"], len(document)) == ("tea_1", [], 0)
    with pytest.raises(StoreError, match="it already exists"):
        create_eval_set(path, "tea_1")
    with pytest.raises(StoreError, match="letters, digits and underscores"):
        create_eval_set(tmp_path / "b.json", "a/b")


def test_scenarios_are_added_once_and_other_bytes_stay_unchanged(copy_eval_set: Callable[[str], Path]) -> None:
    path = copy_eval_set("comments.evalset.json")
    old = path.read_text()
    scenarios, session_input = copy_eval_set("scenarios.json"), copy_eval_set("session_input.json")

    first = add_scenarios(path, scenarios, session_input_file=session_input, read_personas=dict)
    added = path.read_text()
    second = add_scenarios(path, scenarios, session_input_file=session_input, read_personas=dict)

    assert [case.added for case in first] == [True, True] and [case.added for case in second] == [False, False]
    assert path.read_text() == added
    last = "    } # the last"
    start, end = old.split(last)
    assert added.startswith(start + '    }, # the last\n    {\n      "eval_id": ')
    assert added.endswith(end)
    document = EvalSetDocument.open(path)
    assert document.case(3).conversation_scenario.user_persona.id == "HURRIED"
    assert document.case(2).session_input.app_name == "kitchen"


def test_the_id_of_a_scenario_is_the_hash_of_adk(copy_eval_set: Callable[[str], Path]) -> None:
    ids = [scenario.eval_id() for scenario in read_scenarios(copy_eval_set("scenarios.json"))]

    assert ids == ["0af0ab24", "0b78eb07"]  # as google-adk 2.13 computes them


BEHAVIOR = {"name": "b", "description": "d", "behavior_instructions": ["i"], "violation_rubrics": []}
PERSONA = {"id": "P", "description": "p", "behaviors": [BEHAVIOR]}
CAMEL_CASE = {**BEHAVIOR, "behaviorInstructions": ["i"], "violationRubrics": []}
PERSONAS: list[Any] = [
    None, "EXPERT", "NOVICE", "EVALUATOR", "expert", "Novice", "", " EXPERT", "NOBODY", 5, True, [], {}, [PERSONA],
    PERSONA, {**PERSONA, "behaviors": []}, {**PERSONA, "behaviors": {}}, {**PERSONA, "behaviors": None},
    {**PERSONA, "note": 1}, {**PERSONA, "id": ""}, {**PERSONA, "id": 5}, {**PERSONA, "description": None},
    {**PERSONA, "behaviors": [BEHAVIOR, {**BEHAVIOR, "note": 1}]}, {**PERSONA, "behaviors": "b"},
    {**PERSONA, "behaviors": [CAMEL_CASE]}, {**PERSONA, "behaviors": [{**BEHAVIOR, "name": 1}]},
    {**PERSONA, "behaviors": [{key: CAMEL_CASE[key] for key in CAMEL_CASE if "_" not in key}]},
    {**PERSONA, "behaviors": [{**BEHAVIOR, "behavior_instructions": "i"}]},
    {**PERSONA, "behaviors": [{**BEHAVIOR, "violation_rubrics": [1]}]},
    *({key: PERSONA[key] for key in PERSONA if key != omitted} for omitted in PERSONA),
    *({**PERSONA, "behaviors": [{k: BEHAVIOR[k] for k in BEHAVIOR if k != omitted}]} for omitted in BEHAVIOR),
]  # fmt: skip
SCENARIOS: list[dict[str, Any]] = [
    *({"starting_prompt": "hi", "conversation_plan": "talk", "user_persona": persona} for persona in PERSONAS),
    *(
        {"starting_prompt": text, "conversation_plan": text, "user_persona": "NOVICE"}
        for text in ("", "é \u2029 😀 \\")
    ),
    {"startingPrompt": "hi", "conversationPlan": "talk", "userPersona": "EXPERT"},
    {"starting_prompt": "hi", "conversationPlan": "talk"},
    {"starting_prompt": "hi", "conversation_plan": "talk", "persona": "EXPERT"},
    {"starting_prompt": "hi", "conversation_plan": 1},
    {"starting_prompt": "\ud83d", "conversation_plan": "talk"},
    {"starting_prompt": "hi"},
    {},
]


@pytest.mark.needs_adk
def test_scenarios_valid_for_adk_get_its_ids_and_others_are_refused(copy_eval_set: Callable[[str], Path]) -> None:
    from google.adk.evaluation.conversation_scenarios import ConversationScenarios
    from google.adk.evaluation.simulation.pre_built_personas import get_default_persona_registry

    def read_personas() -> dict[str, Any]:
        return {each.id: each.model_dump() for each in get_default_persona_registry().get_registered_personas()}

    agreed: dict[str, bool] = {}
    for scenario in SCENARIOS:
        text = json.dumps({"scenarios": [scenario]})
        eval_set, scenario_file = copy_eval_set("kettle.evalset.json"), copy_eval_set("scenarios.json")
        before = eval_set.read_bytes()
        scenario_file.write_text(text)
        try:
            (read,) = ConversationScenarios.model_validate_json(text).scenarios
            dumped = json.dumps(read.model_dump(), sort_keys=True)
            theirs = hashlib.sha256(dumped.encode()).hexdigest()[:8]
        except Exception:  # ADK lets errors of several kinds through
            theirs = "refused"

        try:
            (added,) = add_scenarios(
                eval_set,
                scenario_file,
                session_input_file=copy_eval_set("session_input.json"),
                read_personas=read_personas,
            )
            ours = added.eval_id
            assert added.is_adk_id
        except StoreError:
            ours = "refused"

        agreed[text] = ours == theirs
        assert (eval_set.read_bytes() == before) == (ours == "refused")
        eval_set.write_bytes(before)
    assert [text for text, agrees in agreed.items() if not agrees] == []


def test_a_scenario_that_was_added_without_adk_is_not_added_again_with_it(
    copy_eval_set: Callable[[str], Path], write_file: Callable[..., Path]
) -> None:
    scenario = {"starting_prompt": "hi", "conversation_plan": "talk", "user_persona": "NOVICE"}
    eval_set, session_input = copy_eval_set("kettle.evalset.json"), copy_eval_set("session_input.json")
    scenario_file = write_file(json.dumps(scenario), "s.json")

    without_adk = add_scenarios(eval_set, scenario_file, session_input_file=session_input, read_personas=dict)
    with_adk = add_scenarios(
        eval_set, scenario_file, session_input_file=session_input, read_personas=lambda: {"NOVICE": {}}
    )

    assert [(case.added, case.is_adk_id) for case in without_adk] == [(True, False)]
    assert [(case.added, case.eval_id) for case in with_adk] == [(False, without_adk[0].eval_id)]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"scenarios": {}}', "scenarios: found an object, expected a list"),
        ('[{"starting_prompt": "a"}]', r"1:2: \[0\]: found nothing, expected the required key conversation_plan"),
        ('{"starting_prompt": 1, "conversation_plan": "b"}', "1:21: starting_prompt: found 1, expected a text"),
        ("5", "found 5, expected a list of conversation scenarios"),
    ],
)
def test_invalid_scenarios_add_nothing(
    copy_eval_set: Callable[[str], Path], write_file: Callable[..., Path], content: str, message: str
) -> None:
    path = copy_eval_set("kettle.evalset.json")
    old = path.read_bytes()

    with pytest.raises(StoreError, match=message):
        add_scenarios(
            path,
            write_file(content, "s.json"),
            session_input_file=copy_eval_set("session_input.json"),
            read_personas=dict,
        )

    assert path.read_bytes() == old


def test_a_session_input_must_name_app_and_user(
    copy_eval_set: Callable[[str], Path], write_file: Callable[..., Path]
) -> None:
    with pytest.raises(StoreError, match="found nothing, expected the required key user_id"):
        add_scenarios(
            copy_eval_set("kettle.evalset.json"),
            copy_eval_set("scenarios.json"),
            session_input_file=write_file('{"app_name": "a"}', "session.json"),
            read_personas=dict,
        )


def test_migration_writes_ids_times_and_roles_and_reports_dropped_keys(
    write_file: Callable[..., Path], copy_eval_set: Callable[[str], Path], tmp_path: Path
) -> None:
    old = write_file(
        '[{"query": "a", "reference": "b", "score": 1, "expected_tool_use": [{"tool_name": "f"}]}]', "old.test.json"
    )
    new = tmp_path / "my new.evalset.json"

    omitted = migrate(old, new, initial_session=copy_eval_set("session_input.json"))

    data = json.loads(new.read_text())
    (case,) = data["eval_cases"]
    (turn,) = case["conversation"]
    assert omitted == ("[0].score",)
    assert (data["eval_set_id"], case["eval_id"]) == ("my new", "old")
    assert case["session_input"] == {"app_name": "kitchen", "user_id": "u", "state": {}}
    assert UUID(turn["invocation_id"]).version == 4 and turn["creation_timestamp"] > 1.7e9
    assert (turn["user_content"]["role"], turn["final_response"]["role"]) == ("user", "model")
    assert turn["intermediate_data"]["tool_uses"] == [{"name": "f"}]


def test_migration_refuses_invalid_input_and_existing_files(
    copy_eval_set: Callable[[str], Path], write_file: Callable[..., Path], tmp_path: Path
) -> None:
    with pytest.raises(StoreError, match="found an eval set in the current format"):
        migrate(copy_eval_set("kettle.evalset.json"), tmp_path / "new.json")
    with pytest.raises(StoreError, match=r"1:14: \[0\].query: found 5, expected a text"):
        migrate(write_file('[   {"query":5}]', "old.json"), tmp_path / "new.json")
    existing = write_file("mine", "mine.json")
    with pytest.raises(StoreError, match="it already exists"):
        migrate(copy_eval_set("legacy_turns.test.json"), existing)

    assert existing.read_text() == "mine"
    assert not (tmp_path / "new.json").exists()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("new.json", "found no such file, expected an eval set, or the name of a new one"),
        ("none/new.evalset.json", "cannot create it: there is no folder"),
        ("my set.evalset.json", "found the id 'my set', expected letters, digits and underscores only"),
    ],
)
def test_a_new_set_that_cannot_be_created(tmp_path: Path, name: str, message: str) -> None:
    with pytest.raises(StoreError, match=re.escape(message)):
        open_or_make_set(tmp_path / name)
