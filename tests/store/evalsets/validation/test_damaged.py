"""Damaged eval sets: every fault is an error, and reading takes linear time in the file size."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from workbench.store.errors import StoreError
from workbench.store.evalsets.evalset_document import EvalSetDocument
from workbench.store.evalsets.new_evalsets import migrate
from workbench.store.evalsets.validation import validate

CASE = '{"eval_id": "a", "conversation": [{"user_content": {"parts": [{"text": "hi"}]}}]}'
SIZE = 150_000
START = '{"eval_set_id": "s", "eval_cases": [\n'
TWICE = ", ".join(f'"{number}": 1, "{number}": 2' for number in range(SIZE // 30))
TRUE = '{"eval_id": "a", "conversation": True},\n'
DAMAGED = {
    "unterminated strings": START + '{"eval_id": "a\n' * (SIZE // 15),
    "unclosed brackets": START + '{"eval_id": "a", "conversation": [' * (SIZE // 34),
    "unclosed brackets without ids": START + '  {"a": [\n' * (SIZE // 10),
    "no commas": START + CASE * (SIZE // len(CASE)) + "]}",
    "spaces before a paragraph separator": START + " " * SIZE + "\u2029" + '{"eval_id": tru}, {"eval_id": tru}]}',
    "comments": START + "# a\n" * (SIZE // 8) + CASE + "]}",
    "words that JSON does not have": START + TRUE * (SIZE // len(TRUE) // 4) + CASE + "]}",
    "duplicate keys in a case": START + CASE.replace("{", "{" + TWICE + ", ", 1) + "]}",
    "duplicate keys around the cases": START.replace("{", "{" + TWICE + ", ", 1) + CASE + "]}",
}


@pytest.mark.parametrize("text", DAMAGED.values(), ids=DAMAGED.keys())
def test_damage_is_read_in_linear_time(write_file: Callable[..., Path], text: str) -> None:
    path = write_file(text)
    started = time.process_time()

    problems = validate([path], strict=True)

    assert problems
    # It takes well below a second; a quadratic algorithm took minutes.
    assert time.process_time() - started < 15


def test_the_line_of_a_fault_is_found_once(write_file: Callable[..., Path]) -> None:
    unreadable, typed = '{"eval_id" "a"}', '{"eval_id": "b", "conversation": {}}'
    document = EvalSetDocument.open(write_file(f"{START}{unreadable}, {typed}]}}"))

    for index in (0, 1, 0, 1):
        with pytest.raises(StoreError) as caught:
            document.case(index)

        assert caught.value is document.entries[index].problem


def test_cases_after_many_broken_ones_are_still_read(write_file: Callable[..., Path]) -> None:
    broken = ",\n".join(CASE.replace('"hi"', "'hi'").replace('"a"', f'"b{number}"') for number in range(50))

    last = '{"eval_id": "a", "conversation": [{"user_content": {"parts": []}, "x": 1}]}'

    problems = validate([write_file(f"{START}{broken},\n{last}]}}")])

    assert [problem.case for problem in problems if problem.rule == "broken-json"] == list(range(50))
    assert [problem.place for problem in problems if problem.rule == "unknown-key"] == [
        "eval_cases[50].conversation[0].x"
    ]


def test_messages_abbreviate_long_keys_and_ids(write_file: Callable[..., Path]) -> None:
    long = "k" * 200_000
    texts = (
        f'{{"eval_set_id": "s", "{long}": 1, "eval_cases": []}}',
        f'{{"eval_set_id": "s", "eval_cases": [{CASE.replace("user_content", long)}]}}',
        f'{{"eval_set_id": "s", "eval_cases": [{", ".join([CASE.replace("a", long, 1)] * 2)}]}}',
        f'{{"criteria": {{"{long}": {{"threshold": "{long}"}}}}}}',
    )

    for text in texts:
        problems = validate([write_file(text)])

        assert problems
        assert all(len(str(problem)) < 1_500 for problem in problems)


def test_a_set_with_broken_json_around_its_cases_is_not_migrated(
    write_file: Callable[..., Path], tmp_path: Path
) -> None:
    old = write_file('[{"name": "a", "data": [{"query": "hi", "reference": "hi"}]}, ]]', "old.test.json")

    with pytest.raises(StoreError, match=r"old\.test\.json:1:64"):
        migrate(old, tmp_path / "new.evalset.json")

    assert not (tmp_path / "new.evalset.json").exists()
