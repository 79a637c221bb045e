"""The two metrics of ADK, compared with google-adk on thousands of random invocations."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from workbench.metrics.case_view import JudgedCase
from workbench.metrics.evaluate import judge_case
from workbench.metrics.registry import prepare
from workbench.model.criteria import EvalConfig
from workbench.model.evalset import Invocation
from workbench.model.results import Execution, MetricResult, TurnResult

pytestmark = pytest.mark.needs_adk

TRAJECTORY, RESPONSE = "tool_trajectory_avg_score", "response_match_score"
TOLERANCE = 1e-9

VALUES: Sequence[Any] = [
    *(0, 1, 1.0, True, False, None, "1", "", "é", "e\u0301", "東京", 2**70, 1e-9, 0.1 + 0.2, 0.3, "\ud800"),
    *([], {}, [1, [True, None]], [1.0, [1, None]], {"a": {"b": [1, 2]}}, {"a": {"b": [2, 1]}}, float("nan")),
]
TEXT = (
    "the cats were running quickly runs ran run generously generations 3.14 1,000 don't e-mail naïve café cafe\u0301 "
    "ﬁne Straße STRASSE İstanbul istanbul книги книга olá ola não reuniões 你好世界 你好中国 世界，你好。 "
    "東京は晴れです カタカナ 안녕하세요 안녕히 สวัสดีชาวโลก ภาษาไทย ພາສາລາວ ភាសាខ្មែរ မြန်မာ "
    "مرحبا بالعالم مَرْحَبًا שלום नमस्ते हिन्दी 😀 😢😢 １２３元 "
    "㐂㐂 𝒳 𠀀 ａｂｃ İ ß ǅ Ⅷ ½ ² … — !!! _under_score_ tabs\tand\nlines \u200bzero \u00a0 a b c"
)
WORDS = TEXT.split(" ")


@pytest.fixture(scope="session")
def adk() -> SimpleNamespace:
    """Return the evaluators of ADK; importing them takes seconds, so this happens once per session."""
    from google.adk.evaluation.eval_case import Invocation as AdkInvocation
    from google.adk.evaluation.eval_metrics import BaseCriterion, EvalMetric, ToolTrajectoryCriterion
    from google.adk.evaluation.final_response_match_v1 import RougeEvaluator
    from google.adk.evaluation.trajectory_evaluator import TrajectoryEvaluator

    def trajectory(options: dict[str, Any]) -> Any:
        criterion = ToolTrajectoryCriterion(threshold=0.5, **options)
        return TrajectoryEvaluator(eval_metric=EvalMetric(metric_name=TRAJECTORY, criterion=criterion))

    def rouge() -> Any:
        criterion = BaseCriterion(threshold=0.5)
        return RougeEvaluator(EvalMetric(metric_name=RESPONSE, criterion=criterion))

    return SimpleNamespace(invocation=AdkInvocation.model_validate, trajectory=trajectory, rouge=rouge)


class Generator:
    """Random invocations as JSON data; expected and actual often agree."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def make_case(self) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """Return the actual and the expected turns of one case."""
        turns = [self.make_pair() for _ in range(self.random.choice((1, 1, 2, 3)))]
        return [actual for actual, _ in turns], [expected for _, expected in turns]

    def make_pair(self) -> tuple[dict[str, Any], dict[str, Any]]:
        expected = [self.make_call() for _ in range(self.random.randrange(5))]
        return self.make_turn(self.change_calls(expected)), self.make_turn(expected)

    def make_call(self) -> dict[str, Any]:
        call: dict[str, Any] = {"name": self.random.choice(("f", "f", "g", "transfer_to_agent"))}
        kind = self.random.randrange(6)
        if kind == 0:
            call["args"] = None
        elif kind > 1:
            call["args"] = {
                self.random.choice("xyz"): self.random.choice(VALUES) for _ in range(self.random.randrange(3))
            }
        if self.random.random() < 0.3:
            call["id"] = f"call-{self.random.randrange(100)}"
        return call

    def change_calls(self, calls: list[dict[str, Any]]) -> list[dict[str, Any]]:
        changed = [dict(call) for call in calls]
        for _ in range(self.random.randrange(3)):
            action = self.random.randrange(4)
            if action == 0:
                self.random.shuffle(changed)
            elif action == 1:
                changed.insert(self.random.randrange(len(changed) + 1), self.make_call())
            elif changed and action == 2:
                changed.pop(self.random.randrange(len(changed)))
            elif changed:
                changed[self.random.randrange(len(changed))] = self.make_call()
        return changed

    def make_turn(self, calls: list[dict[str, Any]]) -> dict[str, Any]:
        turn: dict[str, Any] = {"user_content": {"role": "user", "parts": [{"text": "?"}]}}
        form = self.random.randrange(4)
        if form == 0:
            parts = [{"text": "thinking"}, *({"function_call": call} for call in calls)]
            middle = self.random.randrange(len(parts) + 1)
            turn["intermediate_data"] = {
                "invocation_events": [
                    {"author": "agent", "content": {"parts": parts[:middle]}},
                    {"author": "agent"},
                    {"author": "helper", "content": {"role": "model", "parts": parts[middle:]}},
                ]
            }
        elif calls or form > 1:
            turn["intermediate_data"] = {"tool_uses": calls}
        if self.random.random() < 0.95:
            turn["final_response"] = self.make_content()
        return turn

    def make_content(self) -> dict[str, Any]:
        parts = [
            {"text": self.make_text(), **({"thought": True} if self.random.random() < 0.2 else {})}
            for _ in range(self.random.choice((0, 1, 1, 1, 2)))
        ]
        return {"role": "model", "parts": parts}

    def make_text(self) -> str:
        words = self.random.choices(WORDS, k=self.random.randrange(9))
        if self.random.random() < 0.2:
            words.append("".join(chr(self.random.randrange(32, 0x2FFFF)) for _ in range(6)))
        return self.random.choice((" ", " ", "")).join(words)


def build_judged_case(actual: list[dict[str, Any]], expected: list[dict[str, Any]]) -> JudgedCase:
    turns = tuple(TurnResult(invocation=Invocation.model_validate(turn), duration_seconds=0.0) for turn in actual)
    return JudgedCase(
        case=None,
        expected=[Invocation.model_validate(turn) for turn in expected],
        execution=Execution(turns=turns),
    )


def assert_same(
    result: MetricResult,
    adk: SimpleNamespace,
    evaluator: Any,
    actual: list[dict[str, Any]],
    expected: list[dict[str, Any]],
) -> None:
    """Check that the result equals that of an evaluator of ADK."""
    answer = evaluator.evaluate_invocations(list(map(adk.invocation, actual)), list(map(adk.invocation, expected)))
    assert result.score == pytest.approx(answer.overall_score, abs=TOLERANCE), (actual, expected)
    assert [turn.score for turn in result.per_invocation] == pytest.approx(
        [turn.score for turn in answer.per_invocation_results], abs=TOLERANCE
    )
    assert result.status.name == answer.overall_eval_status.name


@pytest.mark.parametrize("ignore_args", [False, True])
@pytest.mark.parametrize("match_type", ["EXACT", "IN_ORDER", "ANY_ORDER"])
async def test_trajectory_scores_equal_those_of_adk(
    adk: SimpleNamespace, config: Callable[..., EvalConfig], services: Any, match_type: str, ignore_args: bool
) -> None:
    generator = Generator(seed=2130)
    options = {"match_type": match_type, "ignore_args": ignore_args}
    own_config, evaluator = config({TRAJECTORY: {"threshold": 0.5, **options}}), adk.trajectory(options)
    scores = set()
    for _ in range(1500):
        actual, expected = generator.make_case()
        results = await judge_case(build_judged_case(actual, expected), prepare(own_config), services)
        assert_same(results[0], adk, evaluator, actual, expected)
        scores.add(results[0].score)
    assert {0.0, 1.0} < scores  # the invocations differ enough to be worth comparing


async def test_response_scores_equal_those_of_adk(
    adk: SimpleNamespace, config: Callable[..., EvalConfig], services: Any
) -> None:
    generator = Generator(seed=20)
    own_config, evaluator = config({RESPONSE: 0.5}), adk.rouge()
    scores = set()
    for _ in range(3000):
        actual, expected = generator.make_case()
        results = await judge_case(build_judged_case(actual, expected), prepare(own_config), services)
        assert_same(results[0], adk, evaluator, actual, expected)
        scores.add(results[0].score and round(results[0].score, 3))
    assert len(scores) > 100


async def test_every_character_is_tokenized_as_in_adk(adk: SimpleNamespace, config: Any, services: Any) -> None:
    """Place each character between letters: joining, splitting and counting must be the same."""
    own_config, evaluator = config({RESPONSE: 0.5}), adk.rouge()
    turns = []
    for start in range(0, 0x20000, 256):
        block = "".join(f"a{chr(code)}b {chr(code)} " for code in range(start, start + 256))
        turns.append(({"parts": [{"text": block}]}, {"parts": [{"text": block[::-1]}]}))
    actual = [{"user_content": {"parts": []}, "final_response": content} for content, _ in turns]
    expected = [{"user_content": {"parts": []}, "final_response": content} for _, content in turns]

    results = await judge_case(build_judged_case(actual, expected), prepare(own_config), services)
    answer = evaluator.evaluate_invocations(list(map(adk.invocation, actual)), list(map(adk.invocation, expected)))

    assert [turn.score for turn in results[0].per_invocation] == pytest.approx(
        [turn.score for turn in answer.per_invocation_results], abs=TOLERANCE
    )
