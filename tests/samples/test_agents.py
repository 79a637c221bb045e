"""Each case of the samples, run with the agent itself: it passes, or differs or raises as designed."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest

from workbench.store.evalsets.evalset_document import EvalSetDocument

SAMPLES = Path(__file__).parents[2] / "sample_agents"

TARGETS = {
    name: target
    for name, target in tomllib.loads((SAMPLES / "workbench.toml").read_text(encoding="utf-8"))["targets"].items()
    if target["kind"] == "function"
}

# Their criteria do not require equality: a passing case may have other calls than expected.
LENIENT = {"arguments.evalset.json", "routines.evalset.json", "orders.evalset.json", "campaigns.evalset.json"}

DIFFERENCES = {
    "designed_failure_bedside_light": {"trajectory", "response"},
    "designed_failure_looks_first": {"trajectory"},
    "designed_failure_wording": {"response"},
    "designed_failure_spanish": {"trajectory", "response"},
    "designed_failure_second_light_stays_on": {"state"},
    "designed_failure_a_degree_too_warm": {"trajectory", "response"},
    "designed_failure_other_room": {"trajectory"},
    "designed_failure_light_before_heat": {"trajectory", "response"},
    "designed_failure_d20": {"trajectory", "response"},
    "designed_failure_wrong_reference": {"response"},
    "designed_failure_polite": {"response"},
    "designed_failure_ignores_preferences": {"trajectory"},
    "designed_failure_one_hour_late": {"trajectory", "response"},
    "designed_failure_forgets_the_customer": {"trajectory", "response"},
    "designed_failure_delivered_order": {"trajectory"},
    "designed_failure_wrong_site": {"trajectory", "response"},
    "designed_failure_off_topic": {"trajectory", "response"},
}
EXCEPTIONS = {
    "designed_error_degrees_in_words": ValueError,
    "designed_error_die_without_sides": ValueError,
    "designed_error_no_preferred_temperature": KeyError,
    "designed_error_unknown_customer": KeyError,
    "designed_error_31_november": ValueError,
}


def find_eval_sets() -> Iterator[Path]:
    """Yield the eval sets of function agents."""
    folders = sorted({SAMPLES / target["target"].split(".")[0] for target in TARGETS.values()})
    for folder in folders:
        yield from sorted([*folder.glob("*.evalset.json"), *folder.glob("*.test.json")])


def find_agent(path: Path) -> str:
    """Return the agent that `workbench.toml` assigns to an eval set."""
    relative = path.relative_to(SAMPLES).as_posix()
    targets = [t["target"] for t in TARGETS.values() if any(fnmatch(relative, glob) for glob in t["eval_sets"])]
    assert len(targets) == 1, f"{relative} belongs to {len(targets)} targets"
    return str(targets[0])


def find_cases() -> Iterator[Any]:
    simulated = {name for target in TARGETS.values() if "simulate_tools" in target for name in target["eval_sets"]}
    for path in find_eval_sets():
        if path.relative_to(SAMPLES).as_posix() in simulated:
            continue  # the agent itself would use its real tools
        document = EvalSetDocument.open(path)
        for entry in document.entries:
            if document.case(entry.index).conversation_scenario is not None:
                continue  # a model or a script writes the prompts
            yield pytest.param(path, entry.index, id=f"{path.parent.name}/{path.name}:{entry.eval_id}")


@pytest.mark.parametrize(("path", "index"), find_cases())
def test_the_name_of_a_case_predicts_its_outcome(
    path: Path, index: int, load_agent: Callable[[str], Any], run_case: Callable[..., Any]
) -> None:
    case = EvalSetDocument.open(path).case(index)

    outcome = run_case(load_agent(find_agent(path)), case)

    if case.eval_id.startswith("designed_error_"):
        assert outcome == (set(), (1, EXCEPTIONS[case.eval_id]))
    elif case.eval_id.startswith("designed_failure_"):
        assert outcome == (DIFFERENCES[case.eval_id], None)
    else:
        allowed = {"trajectory"} if path.name in LENIENT else set()
        assert outcome.exception is None
        assert outcome.differences <= allowed


@pytest.mark.parametrize("folder", sorted({path.parent for path in find_eval_sets()}), ids=lambda folder: folder.name)
def test_every_case_has_an_expected_verdict(folder: Path) -> None:
    expected = json.loads((folder / "expected.json").read_text(encoding="utf-8"))

    found = {
        path.name: [entry.eval_id for entry in EvalSetDocument.open(path).entries]
        for path in find_eval_sets()
        if path.parent == folder
    }

    assert {name: list(verdicts) for name, verdicts in expected.items()} == found
    for eval_id, verdict in (item for verdicts in expected.values() for item in verdicts.items()):
        prefix = {"FAILED": "designed_failure_", "ERROR": "designed_error_"}.get(verdict, "")
        assert eval_id.startswith(prefix), f"{eval_id}: {verdict}"
        assert eval_id.startswith("designed_") == bool(prefix), f"{eval_id}: {verdict}"


def test_a_set_describes_each_of_its_designed_cases() -> None:
    simulated = {name for target in TARGETS.values() if "simulate_tools" in target for name in target["eval_sets"]}
    for path in find_eval_sets():
        if path.relative_to(SAMPLES).as_posix() in simulated:
            continue  # the agent itself would use its real tools
        document = EvalSetDocument.open(path)
        for entry in document.entries:
            if entry.eval_id.startswith("designed_"):
                assert f"{entry.eval_id}: " in (document.description or ""), f"{path.name}: {entry.eval_id}"


@pytest.mark.parametrize(
    ("location", "prompt", "answer"),
    [
        ("home_automation.agent:answer", "Play some jazz.", "I answer from a script and have no rule for this."),
        ("home_automation.agent:answer", "讲个笑话", "我按脚本回答，没有对应这句话的规则。"),
        (
            "hello_world.agent:answer",
            "Conte uma piada, você aí",
            "Respondo a partir de um roteiro e não tenho regra para isso.",
        ),
        ("on_device.agent:answer", "Play some jazz.", "I answer from a script and have no rule for this."),
        ("customer_support.agent:answer", "Do you like jazz?", "I answer from a script and have no rule for this."),
        ("content_creation.agent:assistant", "Play some jazz.", "I answer from a script and have no rule for this."),
    ],
)
def test_an_agent_without_a_matching_rule_answers_that_it_is_scripted(
    location: str, prompt: str, answer: str, load_agent: Callable[[str], Any], ask: Callable[..., Any]
) -> None:
    assert ask(load_agent(location), prompt) == (answer, [])


def test_dice_without_a_seed_are_random(load_agent: Callable[[str], Any], ask: Callable[..., Any]) -> None:
    agent = load_agent("hello_world.agent:answer")

    answers = {ask(agent, "Roll a 1000000000-sided die").response for _ in range(3)}

    assert len(answers) == 3
