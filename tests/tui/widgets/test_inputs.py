"""The input of a filter, and JSON as it is typed."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual.app import App, ComposeResult
from textual.screen import Screen

from workbench.tui.state.text_layout import Style
from workbench.tui.widgets.inputs import FilterInput, match_brackets, split_json


class _Filter(App[None]):
    """An application with nothing but a filter, and the texts that it followed."""

    def __init__(self) -> None:
        super().__init__()
        self.followed: list[str] = []

    def compose(self) -> ComposeResult:
        yield FilterInput("words", self.followed.append)


async def test_a_filter_follows_a_letter_before_the_letter_is_painted() -> None:
    app = _Filter()
    async with app.run_test() as pilot:
        await pilot.press("a")
        app.query_one(FilterInput).value = "ab"  # nothing can be painted before the next await

        assert app.followed == ["a", "ab"]


async def test_letters_in_a_filter_cause_no_new_layout_of_the_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    app = _Filter()
    async with app.run_test() as pilot:
        await pilot.pause()
        layouts: list[Screen[Any]] = []
        lay_out = Screen._refresh_layout

        def count_layouts(screen: Screen[Any], *args: Any, **options: Any) -> None:
            layouts.append(screen)
            lay_out(screen, *args, **options)

        monkeypatch.setattr(Screen, "_refresh_layout", count_layouts)
        await pilot.press("a", "b")
        await pilot.pause(0.1)

        assert app.query_one(FilterInput).value == "ab"
        assert not layouts


def style_tokens(line: str) -> list[tuple[str, Style]]:
    return [(line[token.start : token.end], token.style) for token in split_json(line)]


def test_keys_texts_numbers_and_constants_of_json_have_their_styles() -> None:
    line = '"a b" : [1, -2.5e3, "c: d", true, null],'

    assert style_tokens(line) == [
        ('"a b"', Style.KEY),
        ("[", Style.TEXT),
        ("1", Style.NUMBER),
        ("-2.5e3", Style.NUMBER),
        ('"c: d"', Style.STRING),
        ("true", Style.CONSTANT),
        ("null", Style.CONSTANT),
        ("]", Style.TEXT),
    ]


def test_a_call_has_the_same_tokens() -> None:
    assert style_tokens("set(room='a [b', on=True)") == [
        ("(", Style.TEXT),
        ("room", Style.KEY),
        ("'a [b'", Style.STRING),
        ("on", Style.KEY),
        ("True", Style.CONSTANT),
        (")", Style.TEXT),
    ]


@pytest.mark.parametrize("text", ['"no end {', '"with \\" and {', '"ends with \\'])
def test_a_text_without_an_end_ends_with_its_line(text: str) -> None:
    assert style_tokens(f"[{text}") == [("[", Style.TEXT), (text.removesuffix("\\"), Style.STRING)]


def test_a_bracket_is_found_at_and_before_the_cursor() -> None:
    brackets = match_brackets(["{", '  "a": [1]', "}"])

    assert brackets.find_pair((1, 7)) == ((1, 7), (1, 9))
    assert brackets.find_pair((1, 10)) == ((1, 9), (1, 7))
    assert brackets.find_pair((2, 1)) == ((2, 0), (0, 0))
    assert brackets.find_pair((1, 3)) == ()


@pytest.mark.parametrize(
    ("lines", "unbalanced"),
    [
        (["[1, 2"], {(0, 0)}),
        (["1]"], {(0, 1)}),
        (["{[}"], {(0, 1)}),
        (["{]}"], {(0, 1)}),
        (['{"]": ["["]}'], set()),
    ],
)
def test_brackets_without_a_counterpart_are_found(lines: list[str], unbalanced: set[tuple[int, int]]) -> None:
    assert match_brackets(lines).unbalanced == unbalanced


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(json_values, st.sampled_from([None, 2]), st.booleans())
def test_brackets_of_valid_json_are_balanced_and_nested(value: object, indent: int | None, is_ascii: bool) -> None:
    lines = json.dumps(value, indent=indent, ensure_ascii=is_ascii).split("\n")

    brackets = match_brackets(lines)

    assert not brackets.unbalanced
    assert len(brackets.pairs) == 2 * count_containers(value)


def count_containers(value: object) -> int:
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return isinstance(value, dict | list) + sum(count_containers(item) for item in items)


@given(st.lists(st.text(alphabet="{}[]()\"'\\a:,1 \u4e2d"), max_size=6))
def test_matching_is_symmetric_and_every_bracket_outside_texts_is_known(lines: list[str]) -> None:
    brackets = match_brackets(lines)

    outside = {
        (number, token.start)
        for number, line in enumerate(lines)
        for token in split_json(line)
        if token.style is Style.TEXT
    }
    assert {*brackets.pairs} | brackets.unbalanced == outside
    assert not brackets.unbalanced & {*brackets.pairs}
    for place, other in brackets.pairs.items():
        assert place != other and brackets.pairs[other] == place
        opening, closing = (lines[number][column] for number, column in sorted((place, other)))
        assert opening + closing in ("{}", "[]", "()")
