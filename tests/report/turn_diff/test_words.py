"""Differences in words."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.model.turn_diff import Passage, PassageChange, compare_words

TEXTS = st.text(st.sampled_from("ab 灯亮.\n"), max_size=30) | st.text(max_size=20)


def format_word_diff(expected: str, actual: str) -> str:
    """Format a word diff like git: `[-removed-]{+added+}`."""
    brackets = {PassageChange.SAME: "{}", PassageChange.REMOVED: "[-{}-]", PassageChange.ADDED: "{{+{}+}}"}
    return "".join(brackets[change].format(text) for change, text in compare_words(expected, actual))


@pytest.mark.parametrize(
    ("expected", "actual", "found"),
    [
        ("The lamp is on.", "The lamp is off.", "The lamp is[- on-]{+ off+}."),
        ("a b", "a new b", "a{+ new+} b"),
        ("a b", "", "[-a b-]"),
        ("", "a b", "{+a b+}"),
        ("一盏灯", "两盏灯", "[-一-]{+两+}盏灯"),
        ("a b", "a  b", "a[- -]{+  +}b"),
        ("don't", "dont", "[-don't-]{+dont+}"),
        ("the same", "the same", "the same"),
    ],
)
def test_words_are_compared_and_characters_in_text_without_spaces(expected: str, actual: str, found: str) -> None:
    assert format_word_diff(expected, actual) == found


@given(TEXTS, TEXTS)
def test_both_texts_can_be_rebuilt_from_the_differences(expected: str, actual: str) -> None:
    passages = compare_words(expected, actual)

    assert "".join(text for change, text in passages if change is not PassageChange.ADDED) == expected
    assert "".join(text for change, text in passages if change is not PassageChange.REMOVED) == actual
    assert all(text for _, text in passages)


def test_an_inserted_word_is_found_in_a_very_long_text() -> None:
    generator = random.Random(1)
    words = [f"word{generator.randrange(300)}" for _ in range(30_000)]
    changed = [*words[:100], "new", *words[100:20_000], "other", *words[20_001:]]

    passages = compare_words(" ".join(words), " ".join(changed))

    added = [text.strip() for change, text in passages if change is PassageChange.ADDED]
    assert added == ["new", "other"]


def test_very_long_different_texts_are_removed_and_added_as_a_whole() -> None:
    assert compare_words("灯" * 100_000, "亮" * 100_000) == (
        Passage(PassageChange.REMOVED, "灯" * 100_000),
        Passage(PassageChange.ADDED, "亮" * 100_000),
    )
