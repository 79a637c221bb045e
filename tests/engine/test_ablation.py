"""Ablation of the prompt: which blocks of the instruction matter, and what does not change."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.engine.project import Project, turn
from tests.engine.varied import ADK, describe_project, reply
from tests.llm.servers import Call, HttpResponse, openai, run_server
from workbench.engine.ablation import (
    Ablated,
    Ablation,
    Effect,
    PromptText,
    copy_project,
    iter_constants,
    list_blocks,
    remove_block,
)
from workbench.engine.case_variants import CaseExecutor
from workbench.engine.plan import PlanError, RunOptions, Selection
from workbench.engine.workspace import Workspace
from workbench.model.identity import CaseKey
from workbench.model.results import CaseStatus
from workbench.model.target import AgentDescription, AgentPart, ModelMode

Reply = Callable[[Call], HttpResponse]


@pytest.fixture
def house(project: Project) -> Project:
    folder = project.root / "house"
    folder.mkdir()
    (project.root / "workbench.toml").write_text("")
    (folder / "__init__.py").write_text("from . import agent\n")
    criteria = {"tool_trajectory_avg_score": 1.0, "response_match_score": 0.1}
    (folder / "test_config.json").write_text(json.dumps({"criteria": criteria}))
    call = {"name": "set_light", "args": {"room": "hall"}}
    cases = [{"eval_id": "a", "conversation": [turn("Light!", response="The light is done.", calls=[call])]}]
    (folder / "h.evalset.json").write_text(json.dumps({"eval_set_id": "h", "eval_cases": cases}))
    return project


def ablate(workspace: Workspace, *, by_line: bool = True, budget: int = 40, repeats: int = 2) -> Ablated:
    selection = Selection(eval_set="house/h.evalset.json")
    with CaseExecutor(workspace, [selection], RunOptions(models_by_default=ModelMode.AUTO)) as executor:
        return Ablation(executor=executor, by_line=by_line, budget=budget, repeats=repeats).run()


@pytest.mark.needs_adk
@pytest.mark.prepared("adk")
@pytest.mark.needs_fork
def test_the_lines_that_the_verdict_and_the_scores_need_are_found(house: Project) -> None:
    with run_server(reply) as server:
        (house.root / "house/agent.py").write_text(ADK.format(url=server.url))
        workspace = house.open_workspace()
        house.run(Selection(eval_set="house/h.evalset.json"), workspace=workspace, models=ModelMode.AUTO)
        case = CaseKey(target="house", eval_set="house/h.evalset.json", eval_id="a")
        before = describe_project(workspace, case)

        found = ablate(workspace)

        systems = [call.body["systemInstruction"]["parts"][0]["text"] for call in server.calls]
    assert [(each.block.agent, each.block.text, each.effect) for each in found.effects] == [
        ("house", "You switch lights.", Effect.NONE),
        ("house", "Be nice.", Effect.SCORES),
        ("house", "Always use the tool.", Effect.VERDICT),
        ("house", "The room is {room?}.", Effect.NONE),
        ("helper", "Help.", Effect.UNUSED),
    ]
    scores, verdict = found.effects[1:3]
    assert scores.changed == ["response_match_score"]
    assert (verdict.without.verdict, len(verdict.without.variants)) == (CaseStatus.FAILED, 2)
    assert {str(each) for each in verdict.without.symptoms} == {
        'tool_trajectory_avg_score: call missing set_light, expected {"room": "hall"}'
    }
    assert [len(each.without.variants) for each in found.effects] == [2, 2, 2, 2, 0]
    assert found.executions == 2 + 4 * 2
    assert found.whole.replayed == 1  # the first repeat is recorded
    assert any(text.startswith("Be nice.\n\nAlways use the tool.") for text in systems)
    assert found.unknown == ["instruction of idle is computed by a function at run time"]
    assert describe_project(workspace, case) == before


@pytest.mark.needs_adk
@pytest.mark.prepared("adk")
@pytest.mark.needs_fork
def test_paragraphs_are_left_out_whole_and_the_budget_is_respected(house: Project) -> None:
    with run_server(reply) as server:
        (house.root / "house/agent.py").write_text(ADK.format(url=server.url))
        workspace = house.open_workspace()  # one, because the import of ADK is slow

        whole = ablate(workspace, by_line=False, repeats=1)
        part = ablate(workspace, by_line=False, repeats=2, budget=4)
        lines = ablate(workspace, by_line=True, repeats=2, budget=8)

    texts = [(each.block.first_line, each.block.last_line, each.effect) for each in whole.effects]
    assert texts == [(1, 2, Effect.SCORES), (4, 5, Effect.VERDICT), (1, 1, Effect.UNUSED)]
    assert [len(each.without.variants) for each in lines.effects] == [1, 2, 2, 1, 0]  # no room for repeats of all
    assert part.executions == 4
    assert [each.effect for each in part.effects] == [Effect.SCORES, Effect.UNTRIED, Effect.UNUSED]


@pytest.mark.needs_adk
@pytest.mark.prepared("adk")
@pytest.mark.needs_fork
def test_differences_of_a_flaky_case_are_unclear(house: Project) -> None:
    replies = iter(range(1000))

    def flaky(call: Call) -> HttpResponse:
        part: dict[str, Any] = {"text": "The light is done."}
        if "functionResponse" not in call.body["contents"][-1]["parts"][-1] and next(replies) % 2:
            part = {"functionCall": {"name": "set_light", "args": {"room": "hall"}}}
        return HttpResponse({"candidates": [{"content": {"role": "model", "parts": [part]}}], "modelVersion": "m"})

    with run_server(flaky) as server:
        (house.root / "house/agent.py").write_text(ADK.format(url=server.url))

        found = ablate(house.open_workspace(), by_line=False, repeats=3)

    assert found.whole.verdict is None
    assert {each.effect for each in found.effects if each.block.agent == "house"} == {Effect.UNCLEAR}


@pytest.mark.needs_adk
@pytest.mark.prepared("adk")
@pytest.mark.needs_fork
def test_a_part_without_which_only_some_executions_differ_is_unclear(house: Project) -> None:
    replies = iter(range(1000))

    def reply_sometimes(call: Call) -> HttpResponse:
        """Without "Be nice." use the tool in every second execution only, beginning with the first."""
        contents = call.body["contents"]
        part: dict[str, Any] = {"text": "The light is done."}
        is_asked = "functionResponse" not in contents[-1]["parts"][-1]
        if is_asked and ("Be nice." in json.dumps(call.body["systemInstruction"]) or next(replies) % 2 == 0):
            part = {"functionCall": {"name": "set_light", "args": {"room": "hall"}}}
        return HttpResponse({"candidates": [{"content": {"role": "model", "parts": [part]}}], "modelVersion": "m"})

    with run_server(reply_sometimes) as server:
        (house.root / "house/agent.py").write_text(ADK.format(url=server.url))

        found = ablate(house.open_workspace(), by_line=False, repeats=2)

    assert [(each.effect, len(each.without.variants)) for each in found.effects][:2] == [
        (Effect.UNCLEAR, 2),
        (Effect.NONE, 2),
    ]


@pytest.mark.needs_adk
@pytest.mark.prepared("adk")
@pytest.mark.needs_fork
def test_an_error_of_the_case_itself_tries_nothing(house: Project) -> None:
    with run_server(lambda _: HttpResponse({"error": {"code": 400, "message": "no"}}, status=400)) as server:
        (house.root / "house/agent.py").write_text(ADK.format(url=server.url))

        found = ablate(house.open_workspace())

    assert found.is_error
    assert {each.effect for each in found.effects} == {Effect.UNTRIED}
    assert found.executions == 2


def test_an_agent_without_known_instructions_is_refused(project: Project) -> None:
    project.add_set({"a": [turn("x")]})
    workspace = project.open_workspace()

    with CaseExecutor(workspace, [Selection(eval_set="set.evalset.json")], RunOptions()) as executor:
        ablation = Ablation(executor=executor, by_line=True, budget=9, repeats=1)
        with pytest.raises(PlanError, match="sample: workbench knows no instruction that it could leave out"):
            ablation.run()


def test_two_prompts_in_one_line_are_two_places() -> None:
    source = 'crew = [Agent(instructions="Be A."), Agent(instructions="Be B.")]'

    first, second = iter_constants(source, None)

    assert (first[0], second[0]) == ("Agent(instructions), line 1", "Agent(instructions), line 1, column 57")


def test_files_that_disappear_are_not_copied_and_unreadable_ones_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, folder, other = (tmp_path / name for name in ("root", "copy", "other"))
    for each in (root, folder, other):
        each.mkdir()
    for name in ("agent.py", "gone.tmp"):
        (root / name).write_text("x")
    copy = shutil.copy2

    def copy_late(source: Path, place: Path) -> None:
        (root / "gone.tmp").unlink(missing_ok=True)
        copy(source, place)

    def refuse(source: Path, place: Path) -> None:
        raise PermissionError(13, "Permission denied", str(source))

    monkeypatch.setattr(shutil, "copy2", copy_late)
    copy_project(root, folder, {})
    monkeypatch.setattr(shutil, "copy2", refuse)
    with pytest.raises(PlanError, match=r"agent\.py: the agent runs in a copy of the project, but it cannot be copied"):
        copy_project(root, other, {})

    assert [each.name for each in folder.iterdir()] == ["agent.py"]


def describe(text: str) -> AgentDescription:
    return AgentDescription(agents=(AgentPart(name="a", instructions={"instruction": text}),))


@given(st.text(alphabet="ab \n", max_size=30), st.booleans())
def test_blocks_cover_every_line_that_is_not_blank_once(text: str, by_line: bool) -> None:
    blocks = list_blocks(describe(text), by_line=by_line)

    covered = [line for block in blocks for line in range(block.first_line, block.last_line + 1)]
    assert covered == [number for number, line in enumerate(text.split("\n"), start=1) if line.strip()]
    for block in blocks:
        rest = [line for line in remove_block(text, block).split("\n") if line.strip()]
        gone = set(range(block.first_line, block.last_line + 1))
        kept = [line for n, line in enumerate(text.split("\n"), start=1) if line.strip() and n not in gone]
        assert rest == kept


def test_a_blank_line_around_a_removed_paragraph_goes_with_it() -> None:
    text = "A\nB\n\nC\n\nD"
    first, second, third = list_blocks(describe(text), by_line=False)

    assert remove_block(text, first) == "C\n\nD"
    assert remove_block(text, second) == "A\nB\n\nD"
    assert remove_block(text, third) == "A\nB\n\nC\n"


def test_lines_that_end_with_a_carriage_return_are_shown_without_it() -> None:
    text = "A\r\nB\r\n\r\nC\r\n"

    blocks = list_blocks(describe(text), by_line=False)

    assert [block.text for block in blocks] == ["A\nB", "C"]
    assert remove_block(text, blocks[0]) == "C\r\n"


ASKING = '''
from pathlib import Path
import httpx

STYLE_PROMPT = """Be brief.
Use the tool."""
UNUSED_PROMPT = "Never read."

def answer(prompt):
    system = (Path(__file__).parent / "prompt.md").read_text() + STYLE_PROMPT
    messages = [{{"role": "system", "content": system}}, {{"role": "user", "content": prompt}}]
    reply = httpx.post("{url}/v1/chat/completions", json={{"model": "m", "messages": messages}}).json()
    text = reply["choices"][0]["message"]["content"]
    calls = [{{"tool_name": "set_light", "tool_input": {{"room": "hall"}}}}] if text == "use" else []
    return {{"response": text, "predicted_trajectory": calls}}
'''


def read_files(root: Path) -> dict[str, bytes]:
    return {
        str(path): path.read_bytes() for path in root.rglob("*.*") if path.is_file() and ".workbench" not in path.parts
    }


def reply_by_prompt(call: Call) -> HttpResponse:
    system = call.body["messages"][0]["content"]
    return openai("use" if "Use the tool." in system and "You switch lights." in system else "no")


@pytest.fixture
def asking_house(house: Project) -> Project:
    """Add a function that sends a model a prompt in a file and one in a constant. It needs the address of the model."""
    (house.root / "house/__init__.py").write_text("")
    (house.root / "house/test_config.json").write_text('{"criteria": {"tool_trajectory_avg_score": 1.0}}')
    (house.root / "house/prompt.md").write_text("You switch lights.\n\nBe nice.\n")
    (house.root / "workbench.toml").write_text(
        '[targets.house]\nkind = "function"\ntarget = "house.agent:answer"\neval_sets = ["house/*.evalset.json"]\n'
    )
    return house


def test_an_outage_of_the_model_is_no_effect_of_a_part(asking_house: Project) -> None:
    has_outage = False

    def reply_or_fail(call: Call) -> HttpResponse:
        return HttpResponse("overloaded", status=503) if has_outage else reply_by_prompt(call)

    def count(status: CaseStatus) -> None:
        nonlocal has_outage
        has_outage = True

    reported: list[Effect] = []
    with run_server(reply_or_fail) as server, Workspace.open(asking_house.root) as workspace:
        (asking_house.root / "house/agent.py").write_text(ASKING.format(url=server.url))
        options = RunOptions(models_by_default=ModelMode.AUTO)
        with CaseExecutor(workspace, [Selection(eval_set="house/h.evalset.json")], options) as executor:
            ablation = Ablation(executor=executor, by_line=True, budget=20, repeats=1, count=count)
            ablation.report = lambda found: reported.append(found.effect)
            early = ablation.run()
            has_outage, ablation.count = False, lambda _: None
            found = ablation.run()

    assert early.executions == 1 + 3 + 1  # the whole instruction, three parts, and the whole one again, not replayed
    assert "JSONDecodeError" in early.error
    assert {each.effect for each in early.effects} == {Effect.UNTRIED}
    assert early.can_continue(budget=20, repeats=1)
    effects = {each.block.text: each.effect for each in found.effects}
    assert {text for text, effect in effects.items() if effect is Effect.VERDICT} == {
        "You switch lights.",
        "Use the tool.",
    }
    assert (found.error, Effect.ERROR in reported) == ("", False)


def test_prompts_of_a_function_in_a_file_and_in_a_constant_are_tried_in_a_copy(asking_house: Project) -> None:
    house = asking_house
    with run_server(reply_by_prompt) as server:
        (house.root / "house/agent.py").write_text(ASKING.format(url=server.url))
        before = read_files(house.root)
        with Workspace.open(house.root) as workspace:
            list(
                workspace.start(
                    workspace.plan([Selection(eval_set="house/h.evalset.json")], RunOptions())
                ).iter_events()
            )
            found = ablate(workspace, repeats=1)

    effects = {(each.block.agent, each.block.text): each.effect for each in found.effects}
    assert effects == {
        ("house/prompt.md", "You switch lights."): Effect.VERDICT,
        ("house/prompt.md", "Be nice."): Effect.NONE,
        ("house/agent.py", "Be brief."): Effect.NONE,
        ("house/agent.py", "Use the tool."): Effect.VERDICT,
    }
    assert read_files(house.root) == before


READING = """
from pathlib import Path

def answer(prompt):
    text = (Path(__file__).parent / "prompt.md").read_text()
    calls = [{"tool_name": "set_light", "tool_input": {"room": "hall"}}] if "Use the tool." in text else []
    return {"response": "done", "predicted_trajectory": calls}
"""


@pytest.fixture
def reading_house(house: Project) -> Project:
    """Add an agent without a model that reads its prompt of two lines."""
    (house.root / "house/prompt.md").write_text("Use the tool.\nBe nice.\n")
    (house.root / "house/agent.py").write_text(READING)
    (house.root / "house/__init__.py").write_text("")
    (house.root / "workbench.toml").write_text(
        '[targets.house]\nkind = "function"\ntarget = "house.agent:answer"\neval_sets = ["house/*.evalset.json"]\n'
    )
    return house


def test_a_part_without_which_the_case_fails_in_another_way_matters(reading_house: Project) -> None:
    eval_set = reading_house.root / "house/h.evalset.json"
    eval_set.write_text(eval_set.read_text().replace("hall", "attic"))

    with Workspace.open(reading_house.root) as workspace:
        found = ablate(workspace, repeats=1)

    assert [each.effect for each in found.effects] == [Effect.FAILURE, Effect.NONE]


def test_a_score_that_does_not_exist_without_a_part_changes(reading_house: Project) -> None:
    (reading_house.root / "house/test_config.json").write_text(
        '{"criteria": {"trajectory_precision": 0.5, "response_match_score": 0.1}}'
    )

    with Workspace.open(reading_house.root) as workspace:
        found = ablate(workspace, repeats=1)

    assert [(each.effect, list(each.changed)) for each in found.effects] == [
        (Effect.SCORES, ["trajectory_precision"]),
        (Effect.NONE, []),
    ]


def test_parts_without_which_the_agent_crashes_end_in_error(reading_house: Project) -> None:
    (reading_house.root / "house/agent.py").write_text(
        READING.replace("    calls", "    assert 'Be nice.' in text\n    calls")
    )

    with Workspace.open(reading_house.root) as workspace:
        found = ablate(workspace, repeats=2)

    assert [each.effect for each in found.effects] == [Effect.VERDICT, Effect.ERROR]
    assert (found.error, found.executions) == ("", 2 + 4 + 1)


def test_an_ablation_continues_after_a_stop_and_with_a_larger_budget_and_more_repeats(reading_house: Project) -> None:
    house = reading_house
    with (
        Workspace.open(house.root) as workspace,
        CaseExecutor(workspace, [Selection(eval_set="house/h.evalset.json")], RunOptions()) as executor,
    ):
        ablation = Ablation(executor=executor, by_line=True, budget=3, repeats=2)
        used_up = ablation.run()
        ablation.budget, ablation.count = 10, lambda _: executor.cancel()
        stopped = ablation.run()
        ablation.count = lambda _: None
        executor.reopen()
        (house.root / "house/agent.py").write_text(f"{READING}# saved\n")
        whole = ablation.run()
        ablation.repeats = 3
        repeated = ablation.run()

    assert [each.effect for each in used_up.effects] == [Effect.UNCLEAR, Effect.UNTRIED]
    assert used_up.executions == 3 and not used_up.can_continue(budget=3, repeats=2)
    assert used_up.can_continue(budget=4, repeats=2)
    assert stopped.is_interrupted and not stopped.changed_files
    assert stopped.executions == 5  # with the one that was stopped
    assert [each.effect for each in whole.effects] == [Effect.VERDICT, Effect.NONE]
    assert whole.executions == 7 and not whole.can_continue(budget=10, repeats=2)
    assert list(whole.changed_files) == ["house/agent.py"]
    assert [len(each.without.variants) for each in repeated.effects] == [3, 3]
    assert len(repeated.whole.variants) == 3


@pytest.mark.parametrize(
    "code",
    [
        'agent = create_react_agent(model, [], prompt="Be nice.")',
        'agent = create_agent(model, system_prompt=("Be " "nice."))',
        'messages = [SystemMessage(content="Be nice."), other]',
        'template = ChatPromptTemplate.from_messages([("system", "Be nice."), ("user", "{input}")])',
        'def ask():\n    return [{"role": "system", "content": "Be nice."}]',
        'SYSTEM = """Be nice."""',
    ],
)
def test_prompts_in_the_code_are_found_and_edited_in_place(code: str) -> None:
    source = f"# ä\n{code}\nafter = 1\n"

    ((name, text, span),) = iter_constants(source, None)

    prompt = PromptText("agent.py", name, text, span)
    (block,) = prompt.list_blocks(by_line=True)
    edited = prompt.edit(source.encode(), block).decode()
    assert text == "Be nice."
    assert "nice" not in edited
    assert edited.endswith("after = 1\n")
    compile(edited, "agent.py", "exec")


def test_an_ablation_stops_while_the_import_of_the_agent_hangs(reading_house: Project) -> None:
    (reading_house.root / "house/agent.py").write_text("import time\ntime.sleep(600)\n")
    selection = Selection(eval_set="house/h.evalset.json")
    with (
        Workspace.open(reading_house.root) as workspace,
        CaseExecutor(workspace, [selection], RunOptions()) as executor,
    ):
        timer = threading.Timer(0.5, executor.cancel)
        timer.start()
        found = Ablation(executor=executor, by_line=True, budget=9, repeats=1).run()
        timer.join()

    assert found.is_interrupted and not found.executions
