"""Regular expressions and path patterns from files: same meaning as in Python, with a time limit."""

from __future__ import annotations

import re
import warnings

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from workbench.model.patterns import Pattern, PatternError, PatternTooSlow, remove_backtracking


@pytest.mark.parametrize("pattern", ["(a+)+$", "(.*a){25}", r"(\w+\s?)+;", r"(?=(a+))a*b\1"])
def test_common_backtracking_traps_return_quickly(pattern: str) -> None:
    assert not Pattern(pattern).fullmatch("a" * 40 + "!")


def test_a_match_beyond_the_time_limit_raises_with_the_expression() -> None:
    with pytest.raises(PatternTooSlow, match=r"'\(a\|aa\)\+\$' needs more than 0.5 s for a text of 81 characters"):
        Pattern("(a|aa)+$").fullmatch("a" * 80 + "!")


@pytest.mark.parametrize("pattern", ["(", "(" * 5000, "a" * 20_000, r"\L<names>", "a{3}{99999999999}"])
def test_an_invalid_expression_is_refused(pattern: str) -> None:
    with pytest.raises(PatternError):
        Pattern(pattern)


def test_lookaround_backreferences_and_flags_work_as_in_python() -> None:
    assert Pattern(r"(?<=^)(\w)\1(?!c).*", flags=re.DOTALL | re.IGNORECASE).fullmatch("aAb\nc")
    found = Pattern(r"b(?P<n>\d+)").search("ab12")
    assert found is not None
    assert found.expand(r"\g<n>") == "12"


@settings(max_examples=1000)
@given(
    st.lists(
        st.sampled_from(
            [
                *("a", "e", "1", "{", "}", ",", "[", "]", ":", "\\", "(", ")", "|", "+", "?", "^", "-", "<=", "{e}"),
                *("(?:ab)", "[:alpha:]", "[[:digit:]]", "{1,2}", "{,1}", "{i<=1}", r"\N{BULLET}", r"\{", r"\\"),
            ]
        ),
        max_size=6,
    ).map("".join),
    st.text("ae1{}[]:,l", max_size=5),
)
@example("id-{d}", "id-")
@example("[[:alph:]]", "a:]")
@example(r"a\\{e}", "a")
@pytest.mark.filterwarnings("ignore:Possible:FutureWarning")
def test_a_pattern_matches_the_same_texts_as_in_python(pattern: str, text: str) -> None:
    try:
        expected = re.compile(pattern).fullmatch(text)
    except re.error:
        assume(False)

    try:
        found = Pattern(pattern)
    except PatternError as error:
        assert "has the class [:" in str(error)
    else:
        assert found.fullmatch(text) == (expected is not None)


@pytest.mark.parametrize("pattern", ["[[:alpha:]]+", "[^[:digit:]]", "id-[a-f[:digit:]]"])
def test_a_posix_class_in_a_set_is_refused(pattern: str) -> None:
    with pytest.raises(PatternError, match=r"has the class \[:(alpha|digit):\], which Python does not know"):
        Pattern(pattern)


@pytest.mark.parametrize(
    ("pattern", "subject"), [("[[]a", "[a"), ("[a&&b]", "&"), ("[a||b]", "|"), (r"\[[:alpha:]", "[p")]
)
def test_a_set_that_python_warns_about_is_read_without_a_warning(pattern: str, subject: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")

        assert Pattern(pattern).fullmatch(subject)


@settings(max_examples=1000)
@given(
    st.lists(st.sampled_from(["a", "b", "/", "[^/]", "[^/]*", "(?:[^/]+/)*", ".*"]), max_size=9),
    st.text("ab/", max_size=9),
)
def test_removing_backtracking_keeps_the_meaning_of_a_path_pattern(steps: list[str], path: str) -> None:
    expression = "".join(steps)

    same = re.fullmatch(remove_backtracking(expression), path)

    assert (same is None) == (re.fullmatch(expression, path) is None)


def test_a_path_pattern_with_many_stars_matches_quickly() -> None:
    expression = remove_backtracking("[^/]*a" * 40 + "b")

    assert re.fullmatch(expression, "a" * 250) is None
