"""Verdict words in short texts, with any decoration, introduction and explanation."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from workbench.metrics.judges.reply_parser import VerdictWords

WORDS = VerdictWords(
    {
        **dict.fromkeys(("yes", "true", "valid", "not applicable", "n/a", "是", "有效"), 1),
        **dict.fromkeys(("no", "false", "invalid", "not valid", "partially valid", "否", "无效"), 0),
    },
    asides=frozenset({"not applicable", "n/a"}),
)

DECORATIONS = (
    "",
    " ",
    "**",
    "`",
    '"',
    "“",
    "(",
    "✅ ",
    "❌ ",
    "> ",
    "- ",
    "1. ",
    "### ",
    "<b>",
    "「",
    "👉🏽 ",
    "\u200b",
)
INTRODUCTIONS = (
    "",
    "Verdict: ",
    "verdict is ",
    "Final answer - ",
    "**Verdict:** ",
    "My verdict = ",
    "Label: ",
    "结论：",
)
ENDINGS = ("", ".", "!", "。", "！", "**", "`", '"', "”", ")", "</b>", " ✅", "…")
EXPLANATIONS = (
    *(
        "",
        " - far too long",
        " – it is short",
        ", it is not short",
        ": see above",
        "; the user asked",
        " (by tool output)",
    ),
    *(
        "，因为太长",
        "。太长了",
        " because it is long",
        " since the agent asked",
        " (not applicable)",
        "\n\nIt is long.",
        "\nReason: far too long",
    ),
    *(". My eyes ...", " — no calls were made, so", "| 3 of 4", " / the agent called it"),
)


@given(
    st.sampled_from(
        ("yes", "no", "true", "valid", "invalid", "not valid", "partially valid", "not applicable", "是", "否", "无效")
    ),
    st.sampled_from((str, str.upper, str.title, str.capitalize)),
    st.sampled_from(DECORATIONS),
    st.sampled_from(INTRODUCTIONS),
    st.sampled_from(DECORATIONS),
    st.sampled_from(ENDINGS),
    st.sampled_from(EXPLANATIONS),
)
def test_the_leading_word_is_the_verdict(
    word: str, case: type[str], before: str, introduction: str, decoration: str, ending: str, explanation: str
) -> None:
    text = f"{before}{introduction}{decoration}{case(word)}{ending}{explanation}"

    assert WORDS.find(text) == WORDS.find(word), text


@given(
    st.sampled_from(("yes", "no", "valid", "invalid", "是", "否")),
    st.sampled_from((" and ", " or ", "/", " / ", ", ", " | ", "\n", " (", " - ", "; ", " but ", "，")),
    st.sampled_from(("yes", "no", "valid", "invalid", "是", "否")),
    st.sampled_from(DECORATIONS),
    st.sampled_from(ENDINGS),
)
def test_two_different_verdicts_give_no_verdict(
    first: str, separator: str, second: str, before: str, ending: str
) -> None:
    assume(WORDS.find(first) != WORDS.find(second))

    assert WORDS.find(f"{before}{first}{separator}{second}{ending}") is None


@pytest.mark.parametrize(
    "text",
    [
        *("", "?", "maybe", "nothing", "yesterday", "novel", "no-one complained", "No violations found.", "no doubt"),
        *(
            "true in part",
            "valid in some ways, invalid in others",
            "是否太长",
            "否则",
            "not",
            "unclear: yes?",
            "Is it? No.",
            "valid? no",
            "Yes? No.",
            "valid (?) - no",
        ),
        "no, yes it is short",
        *("No. Wait, actually yes.", "Valid. Actually, on closer look, invalid.", "yes\n\nHowever, no."),
        *("No, the agent called it. So yes.", "yes, yes, no", "yes. Wait, no."),
        *("No, I can't help with that.", "**No.** I'm sorry, but I am unable to assist with this request."),
        *("true for the first part, false for the second", "yes for A, no for B", "Valid in A, but invalid in B"),
    ],
)
def test_ambiguous_text_gives_no_verdict(text: str) -> None:
    assert WORDS.find(text) is None


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ("yes it is short", 1),
        ("Yes, no tool was called.", 1),
        ("Yes. However, no tool was called.", 1),
        ("Yes, so no in-depth search was needed", 1),
        ("No, no, no.", 0),
        ("no: true is what the reference says", 0),
        ("No (not applicable)", 0),
        ("No, I cannot find the call.", 0),
        ("It is far too long. No.", 0),
        ("far too long → no", 0),
        ("Not_applicable", 1),
        ("N/A", 1),
    ],
)
def test_words_around_a_verdict_do_not_change_it(text: str, verdict: int) -> None:
    assert WORDS.find(text) == verdict


@given(st.text())
def test_any_text_is_read_without_an_exception(text: str) -> None:
    for variant in (text, f"yes{text}", f"no {text}", f"{text} yes"):
        assert WORDS.find(variant) in {None, 0, 1}
