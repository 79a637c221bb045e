"""The first difference of two executions of a flaky case."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest

from workbench.model.evalset import Invocation, Quarantine
from workbench.model.identity import CaseKey, JobKey
from workbench.model.results import CaseResult, CaseStatus, Execution, TurnResult
from workbench.report.flaky_cases import (
    Divergence,
    FlakyCase,
    StoredPlace,
    describe_divergence,
    find_divergence,
    flaky_lines,
)

KEY = CaseKey(target="t", eval_set="s.evalset.json", eval_id="c")

CALL = {"function_call": {"id": "1", "name": "get", "args": {"city": "Oslo"}}}
RESULT = {"function_response": {"id": "1", "name": "get", "response": {"sky": "grey"}}}


def make_turn(
    *parts: dict[str, Any], answer: str = "grey", prompt: str = "sky?", has_models: bool = True
) -> TurnResult:
    events = [{"author": "agent", "content": {"role": "model", "parts": [part]}} for part in parts]
    invocation = {
        "user_content": {"role": "user", "parts": [{"text": prompt}]},
        "final_response": {"role": "model", "parts": [{"text": answer}]},
        "intermediate_data": {"invocation_events": events},
    }
    return TurnResult(
        invocation=Invocation.model_validate(invocation),
        duration_seconds=1.0,
        inference_calls=2 if has_models else None,
    )


def make_result(*turns: TurnResult) -> CaseResult:
    execution = Execution(turns=turns)
    return CaseResult(case=KEY, eval_set_id="s", status=CaseStatus.PASSED, duration_seconds=1.0, execution=execution)


def with_changes(part: dict[str, Any], **changes: Any) -> dict[str, Any]:
    [(kind, content)] = part.items()
    return {kind: {**content, **changes}}


@pytest.mark.parametrize(
    ("failed", "expected"),
    [
        (
            make_turn(with_changes(CALL, args={"city": "Rome"}), RESULT),
            (1, "the call of get", 'get({"city": "Oslo"})', 'get({"city": "Rome"})'),
        ),
        (
            make_turn(CALL, with_changes(RESULT, response={"sky": "blue"}), answer="blue"),
            (None, "the result of get", 'get → {"sky": "grey"}', 'get → {"sky": "blue"}'),
        ),
        (make_turn(CALL, RESULT, answer="red"), (2, "the answer", "grey", "red")),
        (make_turn(CALL, RESULT, CALL), (2, "the next step", "grey", 'get({"city": "Oslo"})')),
        (make_turn(answer="grey"), (1, "the next step", 'get({"city": "Oslo"})', "grey")),
        (
            make_turn(CALL, RESULT, prompt="and the sun?"),
            (None, "the message of the user", "sky?", "and the sun?"),
        ),
    ],
)
def test_the_first_difference_names_turn_and_model_call(failed: TurnResult, expected: tuple[Any, ...]) -> None:
    same = make_turn(answer="hello")
    passed = make_turn(CALL, RESULT)

    divergence = find_divergence([make_result(same, passed)], [make_result(same, failed)])

    assert divergence == Divergence(1, *expected)


def test_ids_of_calls_do_not_count() -> None:
    renamed = make_turn(with_changes(CALL, id="adk-77"), with_changes(RESULT, id="adk-77"))

    assert find_divergence([make_result(make_turn(CALL, RESULT))], [make_result(renamed)]) is None


def test_a_missing_turn_is_a_difference() -> None:
    one = make_turn(answer="hello")

    divergence = find_divergence([make_result(one, make_turn())], [make_result(one)])

    assert divergence == Divergence(1, None, "the message of the user", "sky?", "nothing more in this turn")


def test_an_agent_without_models_has_no_model_call() -> None:
    one, other = make_turn(answer="a", has_models=False), make_turn(answer="b", has_models=False)

    assert find_divergence([make_result(one)], [make_result(other)]) == Divergence(0, None, "the answer", "a", "b")


def test_text_of_agents_is_one_short_redacted_line() -> None:
    secret = {"function_call": {"name": "login", "args": {"password": "hunter2"}}}
    divergence = find_divergence(
        [make_result(make_turn(secret))], [make_result(make_turn(answer="a\x1b[31m\nb" * 500))]
    )
    flaky = FlakyCase(case=KEY, passed=1, samples=2, runs=["1"], divergence=divergence, disagreeing=())

    lines = list(flaky_lines([flaky], repeated=1))

    assert "hunter2" not in "\n".join(lines)
    assert "\x1b" not in "\n".join(lines)
    assert all(len(line) < 250 for line in lines)


def test_deleted_traces_are_said() -> None:
    flaky = FlakyCase(case=KEY, passed=1, samples=2, runs=["1", "2"], divergence=None, disagreeing=())

    assert list(flaky_lines([flaky], repeated=1))[-1] == (
        "  where they differ is not known: their traces are not stored any more"
    )


def test_the_difference_of_long_steps_is_visible() -> None:
    one, other = ("x" * 300 + middle + "y" * 300 for middle in ("left", "right"))
    divergence = Divergence(0, None, "the answer", one, other)
    flaky = FlakyCase(case=KEY, passed=1, samples=2, runs=["1"], divergence=divergence, disagreeing=())

    *_, passed, failed = flaky_lines([flaky], repeated=1)

    assert "xleft" in passed
    assert "xright" in failed
    assert len(passed) < 250


def test_a_difference_that_is_masked_is_said() -> None:
    [one, other] = [make_turn({"function_call": {"name": "login", "args": {"password": word}}}) for word in ("a", "b")]
    divergence = find_divergence([make_result(one)], [make_result(other)])
    flaky = FlakyCase(case=KEY, passed=1, samples=2, runs=["1"], divergence=divergence, disagreeing=())

    assert (
        list(flaky_lines([flaky], repeated=1))[-1]
        == "    they differ in a value that is masked here, or in white space"
    )


def test_calls_of_the_older_form_do_not_name_a_model_call() -> None:
    def make(city: str) -> TurnResult:
        invocation = {
            "user_content": {"role": "user", "parts": [{"text": "sky?"}]},
            "intermediate_data": {"tool_uses": [{"name": "a", "args": {}}, {"name": "get", "args": {"city": city}}]},
        }
        return TurnResult(invocation=Invocation.model_validate(invocation), duration_seconds=1.0, inference_calls=2)

    divergence = find_divergence([make_result(make("Oslo"))], [make_result(make("Rome"))])

    assert divergence is not None
    assert (divergence.what, divergence.model_call) == ("the call of get", None)


def make_order(number: int, *, room: str = "hall", text: str = "ready") -> CaseResult:
    """Make an execution that has an id and a time in its first call, which differ each time."""
    args = {"id": f"{number:08x}-0000-0000-0000-000000000000", "at": 1_795_706_751.5 + number}
    first = {"function_call": {"name": "find", "args": args}}
    second = {"function_call": {"name": "light", "args": {"room": room}}}
    return make_result(make_turn(first, second, answer=f"Order {number} {text}"))


def test_values_that_always_differ_are_no_first_difference() -> None:
    passed, failed = [make_order(1), make_order(2)], [make_order(3, room="attic"), make_order(4, room="attic")]

    divergence = find_divergence(passed, failed)

    assert divergence is not None
    assert (divergence.what, divergence.failed) == ("the call of light", 'light({"room": "attic"})')


def test_ids_and_times_are_no_first_difference_of_only_two_executions() -> None:
    ids = [f"{letter * 8}-1111-2222-3333-444444444444" for letter in "ab"]
    call = [{"function_call": {"name": "find", "args": {"id": each, "at": "2026-11-26T10:00:00Z"}}} for each in ids]

    divergence = find_divergence(
        [make_result(make_turn(call[0], answer="yes"))], [make_result(make_turn(call[1], answer="no"))]
    )

    assert divergence is not None
    assert divergence.what == "the answer"


def test_an_id_is_the_first_difference_of_two_executions_if_nothing_else_differs() -> None:
    call = [{"function_call": {"name": "find", "args": {"id": letter * 12}}} for letter in "12"]

    divergence = find_divergence([make_result(make_turn(call[0]))], [make_result(make_turn(call[1]))])

    assert divergence is not None
    assert divergence.what == "the call of find"


def test_executions_that_differ_only_in_noise_have_no_first_difference() -> None:
    assert find_divergence([make_order(1), make_order(2)], [make_order(3), make_order(4)]) is None


def test_text_around_an_id_sets_executions_apart() -> None:
    passed = [make_order(1), make_order(2)]
    failed = [make_order(3, text="lost"), make_order(4, text="lost")]

    divergence = find_divergence(passed, failed)

    assert divergence is not None
    assert (divergence.what, divergence.failed) == ("the answer", "Order 3 lost")


def test_the_pair_that_agrees_longest_is_compared() -> None:
    start, other = make_turn(answer="hello"), make_turn(answer="good day")
    passed = [make_result(other, make_turn(answer="a")), make_result(start, make_turn(answer="a"))]
    failed = [make_result(start, make_turn(answer="b"))]

    divergence = find_divergence(passed, failed)

    assert divergence is not None
    assert (divergence.turn, divergence.passed, divergence.failed) == (1, "a", "b")


def test_noise_and_quarantine_are_said() -> None:
    place = StoredPlace("1", JobKey(KEY))
    flaky = FlakyCase(
        case=KEY, passed=1, samples=2, runs=["1"], divergence=None, disagreeing=["own"], compared_places=(place, place),
        is_noisy=True, quarantine=Quarantine(until=date(2026, 12, 24), reason="a\x1b[31m"),
    )  # fmt: skip

    *_, difference, quarantine = flaky_lines([flaky], repeated=1)

    assert "only values such as ids and times" in difference
    assert difference.endswith("they were judged differently: own")
    assert quarantine.startswith("  quarantined until 2026-12-24: a")
    assert "\x1b" not in quarantine


def test_values_in_which_only_failed_executions_differ_decide() -> None:
    passed, failed = [make_order(1), make_order(2)], [make_order(3, room="attic"), make_order(4, room="cellar")]

    divergence = find_divergence(passed, failed)

    assert divergence is not None
    assert divergence.what == "the call of light"
    alone = find_divergence(passed[:1], failed)
    assert alone is not None
    assert alone.failed in ('light({"room": "attic"})', 'light({"room": "cellar"})')


def test_an_answer_in_other_words_each_time_is_the_difference_if_no_step_before_it_is() -> None:
    texts = ("we have it", "it is here", "sold out", "none left")
    passed, failed = [
        [make_order(number, text=text) for number, text in enumerate(texts) if (number > 1) is is_failed]
        for is_failed in (False, True)
    ]

    divergence = find_divergence(passed, failed)

    assert divergence is not None
    assert divergence.what == "the answer"


def test_a_long_step_that_is_the_start_of_a_longer_one_is_shown_at_its_end() -> None:
    start = "word " * 60
    divergence = Divergence(turn=0, model_call=None, what="the answer", passed=start + "end", failed=start + "end" * 99)

    _, passed, failed = describe_divergence(divergence)

    assert passed.endswith("word end")
    assert "word endend" in failed
