"""Metrics on the final response in many scripts, and their results if there is nothing to compare."""

from __future__ import annotations

from typing import Any

import pytest

from workbench.model.results import MetricStatus

NAME = "response_match_score"


@pytest.mark.parametrize(
    ("candidate", "reference", "score"),
    [
        ("你好世界", "你好世界", 1.0),
        ("界世好你", "你好世界", 1.0),
        ("你好中国", "你好世界", 0.5),
        ("你好，世界。", "你好世界", 1.0),
        ("１２３元", "123元", 1.0),
        ("㐂㐂", "㐂", 0.0),
        ("東京は晴れです", "東京は雨です", 10 / 13),
        ("안녕하세요", "안녕히 가세요", 8 / 11),
        ("olá, tudo bem?", "olá, tudo bem?", 1.0),
        ("ola, tudo bem?", "olá, tudo bem?", 2 / 3),
        ("ola\u0301", "ol\u00e1", 1.0),
        ("não", "nao", 0.0),
        ("reuniões marcadas", "reunião marcada", 0.5),
        ("مرحبا بالعالم", "مرحبا بالعالم", 1.0),
        ("مَرْحَبًا", "مرحبا", 0.0),
        ("สวัสดีชาวโลก", "สวัสดีชาวโลก", 1.0),
        ("नमस्ते दुनिया", "नमस्ते दुनिया", 1.0),
        ("שלום עולם", "שלום עולם", 1.0),
        ("Straße", "Strasse", 0.0),
        ("книги", "книга", 0.0),
        ("1,000,000", "1000000", 0.0),
        ("3.14", "3.15", 0.5),
        ("ok 😀", "ok 😢", 1.0),
        ("the cats are running", "cat runs", 2 / 3),
        ("", "hello", 0.0),
    ],
)
async def test_response_match_is_right_in_many_scripts(
    *, candidate: str, reference: str, score: float, config: Any, judge: Any, turn: Any
) -> None:
    results = await judge(config({NAME: 0.8}), actual=[turn(candidate)], expected=[turn(reference)])

    assert results[NAME].score == pytest.approx(score, abs=1e-9)
    assert results[NAME].status is (MetricStatus.PASSED if score >= 0.8 else MetricStatus.FAILED)


@pytest.mark.parametrize(
    ("candidate", "reference", "hint"),
    [
        ("", "", "Both responses are empty"),
        (None, None, "Both responses are empty"),
        ("hello", None, "expects no text"),
        ("😀😀", "😀😀", "equal, but have no word"),
        ("!!!", "???", "have no word"),
        ("hello", "hello", None),
        ("hello", "bye", None),
    ],
)
async def test_a_misleading_score_of_zero_has_a_hint(
    *, candidate: Any, reference: Any, hint: str | None, config: Any, judge: Any, turn: Any
) -> None:
    results = await judge(config({NAME: 0.8}), actual=[turn(candidate)], expected=[turn(reference)])

    assert results[NAME].hint is None if hint is None else hint in results[NAME].hint
    assert results[NAME].score == (1.0 if candidate == reference == "hello" else 0.0)


async def test_thoughts_count_as_in_adk_and_a_hint_says_so(config: Any, judge: Any, turn: Any) -> None:
    results = await judge(
        config({NAME: 0.8, "rouge_1": 0.8}),
        actual=[turn("the answer", thought="one two three four five six seven eight")],
        expected=[turn("the answer")],
    )

    assert results[NAME].score == pytest.approx(1 / 3)
    assert results[NAME].hint == "ADK counts thoughts as part of the response; without them the score is 1."
    assert results["rouge_1"].score == 1.0


async def test_rouge_scores_equal_those_computed_by_hand(config: Any, judge: Any, turn: Any) -> None:
    results = await judge(
        config(dict.fromkeys(("rouge_1", "rouge_2", "rouge_l", "rouge_l_sum"))),
        actual=[turn("the dog bit the man\nand ran")],
        expected=[turn("the man bit the dog\nand ran")],
    )

    # Seven words each, all shared; of six pairs bit-the, and-ran, and two of the-man, the-dog are shared.
    assert results["rouge_1"].score == 1.0
    assert results["rouge_2"].score == pytest.approx(4 / 6)
    assert results["rouge_l"].score == pytest.approx(5 / 7)
    assert results["rouge_l_sum"].score == pytest.approx(5 / 7)


async def test_rouge_respects_its_options(config: Any, judge: Any, turn: Any) -> None:
    plain = await judge(config({"rouge_1": {}}), actual=[turn("the cats ran")], expected=[turn("the cat ran")])
    with_stemmer = await judge(
        config({"rouge_1": {"stemmer": True}}), actual=[turn("the cats ran")], expected=[turn("the cat ran")]
    )
    ascii_only = await judge(
        config({"rouge_1": {"tokenizer": "rouge_score"}}), actual=[turn("你好 a")], expected=[turn("世界 a")]
    )

    assert plain["rouge_1"].score == pytest.approx(2 / 3)
    assert with_stemmer["rouge_1"].score == 1.0
    assert ascii_only["rouge_1"].score == 1.0


@pytest.mark.parametrize(
    ("metric", "candidate", "reference", "reason"),
    [
        ("rouge_1", "!!!", "😀", "neither text has a word to compare"),
        ("rouge_2", "hello", "hello", "neither text has a pair of words to compare"),
        ("rouge_l", "hello", None, "the case expects no response"),
        ("bleu", "", "", "neither text has a word to compare"),
        ("exact_match", "hello", None, "the case expects no response"),
    ],
)
async def test_nothing_to_compare_is_undefined(
    *, metric: str, candidate: Any, reference: Any, reason: str, config: Any, judge: Any, turn: Any
) -> None:
    results = await judge(config({metric: 0.5}), actual=[turn(candidate)], expected=[turn(reference)])

    assert (results[metric].status, results[metric].reason) == (MetricStatus.UNDEFINED, reason)


async def test_a_missing_response_scores_zero_if_one_is_expected(config: Any, judge: Any, turn: Any) -> None:
    results = await judge(
        config({"rouge_1": 0.5, "bleu": 0.5, "exact_match": 0.5}), actual=[turn(None)], expected=[turn("hello")]
    )

    assert {results[name].score for name in ("rouge_1", "bleu", "exact_match")} == {0.0}


async def test_bleu_gives_a_correct_short_answer_the_full_score(config: Any, judge: Any, turn: Any) -> None:
    texts = {"actual": [turn("device off")], "expected": [turn("device off")]}

    default = await judge(config({"bleu": 0.9}), **texts)
    vertex_style = await judge(config({"bleu": {"threshold": 0.9, "effective_order": False}}), **texts)

    assert default["bleu"].score == pytest.approx(1.0)
    assert vertex_style["bleu"].score == 0.0
    assert "effective_order" in vertex_style["bleu"].hint


async def test_bleu_compares_characters_in_scripts_without_spaces(config: Any, judge: Any, turn: Any) -> None:
    texts = {"actual": [turn("我已经关闭了卧室的灯。")], "expected": [turn("我已经关闭了客厅的灯。")]}

    default = await judge(config({"bleu": None}), **texts)
    library = await judge(config({"bleu": {"tokenizer": "13a"}}), **texts)

    assert default["bleu"].score > 0.4
    assert library["bleu"].score < 0.1


async def test_bleu_of_spaced_text_equals_the_score_of_sacrebleu(config: Any, judge: Any, turn: Any) -> None:
    sacrebleu = pytest.importorskip("sacrebleu")
    candidate, reference = "The device, in the bedroom, is off now.", "The bedroom's device is off now."

    results = await judge(config({"bleu": None}), actual=[turn(candidate)], expected=[turn(reference)])

    library_score = sacrebleu.BLEU(effective_order=True).sentence_score(candidate, [reference]).score
    assert results["bleu"].score == pytest.approx(library_score / 100)


@pytest.mark.parametrize(
    ("options", "candidate", "score"),
    [
        ({}, "Hello  World", 0),
        ({"ignore_case": True}, "hello world", 1),
        ({"ignore_whitespace": True}, "\n Hello \t World ", 1),
        ({"ignore_case": True, "ignore_whitespace": True}, " HELLO\nWORLD", 1),
        ({}, "Hello World", 1),
    ],
)
async def test_exact_match_respects_its_options(
    *, options: Any, candidate: str, score: int, config: Any, judge: Any, turn: Any
) -> None:
    results = await judge(config({"exact_match": options}), actual=[turn(candidate)], expected=[turn("Hello World")])

    assert results["exact_match"].score == score


async def test_texts_that_are_too_long_for_rouge_l_are_refused(config: Any, judge: Any, turn: Any) -> None:
    long = "a " * 5000

    results = await judge(config({"rouge_l": 0.5, "rouge_1": 0.5}), actual=[turn(long)], expected=[turn(long)])

    assert results["rouge_l"].status is MetricStatus.ERROR
    assert "too long for rouge_l: 5,000 and 5,000 words" in results["rouge_l"].reason
    assert results["rouge_1"].score == 1.0


async def test_a_row_without_response_or_reference_is_undefined(config: Any, judge: Any, turn: Any) -> None:
    names = (NAME, "exact_match", "rouge_1", "bleu", "tool_name_match")
    criteria = config(dict.fromkeys(names, 0.8))

    no_reference = await judge(criteria, actual=[turn("a")], expected=[turn(None)], columns={"response": "a"})
    sides: dict[str, Any] = {"actual": [turn(None)], "expected": [turn("a")], "columns": {"reference": "a"}}
    no_response = await judge(criteria, **sides, recorded=True)
    silent_agent = await judge(criteria, **sides)

    assert {no_reference[name].status for name in names} == {MetricStatus.UNDEFINED}
    assert {no_reference[name].reason for name in names} == {"the row has no reference"}
    assert {no_response[name].reason for name in names} == {"the row has no response"}
    assert {silent_agent[name].score for name in names[:-1]} == {0.0}
    assert silent_agent["tool_name_match"].reason == "the agent gave no response"
