"""Texts of replayed model calls: marks, what was asked live and why, and what differs from the recording."""

from __future__ import annotations

from typing import Any

import pytest

from workbench.model.results import ModelCalls, RequestDifference
from workbench.report.run_report import describe_sources, difference_lines, mark_replayed


def make_difference(**values: Any) -> RequestDifference:
    return RequestDifference(**{"call": 2, "turn": 0, "what": "instruction, line 4", **values})


@pytest.mark.parametrize(
    ("calls", "mark", "sources"),
    [
        (ModelCalls(replayed=3), "↺", "↺ 3 model calls replayed"),
        (
            ModelCalls(live=2, replayed=1, difference=make_difference()),
            "↺ 1 of 3",
            "↺ 1 model call replayed, model calls 2 to 3 asked live: instruction, line 4 changed",
        ),
        (
            ModelCalls(live=1, replayed=1, difference=make_difference(what=None)),
            "↺ 1 of 2",
            "↺ 1 model call replayed, model call 2 asked live: not in the recording",
        ),
        (
            ModelCalls(live=1, replayed=1, difference=make_difference(what=None, error="HTTP 503")),
            "↺ 1 of 2",
            "↺ 1 model call replayed, model call 2 asked live: the recording has an error, which cannot be replayed",
        ),
        (ModelCalls(live=2), "", "2 model calls asked live"),
    ],
    ids=["all", "from the second on", "one more", "error", "none"],
)
def test_a_verdict_says_which_model_calls_were_replayed(calls: ModelCalls, mark: str, sources: str) -> None:
    assert (mark_replayed(calls), describe_sources(calls)) == (mark, sources)


@pytest.mark.parametrize(
    ("difference", "lines"),
    [
        (
            make_difference(before="Be nice.", now="Be brief."),
            ["model call 2 differs from the recording: instruction, line 4 changed: Be [-nice-]{+brief+}."],
        ),
        (
            make_difference(turn=1, before="Be nice.\nAlways.", now="Be nice to all.\nAlways.", hint="declare it"),
            [
                "model call 2 of turn 2 differs from the recording: instruction, line 4 changed: Be nice {+to all+}.",
                "    Always.",
                "    declare it",
            ],
        ),
        (
            make_difference(now="New."),
            ['model call 2 differs from the recording: instruction, line 4 changed: nothing became "New."'],
        ),
        (make_difference(what=None), ["model call 2 was not made when the case was recorded"]),
    ],
    ids=["word", "lines", "new", "call"],
)
def test_a_difference_is_shown_word_by_word(difference: RequestDifference, lines: list[str]) -> None:
    assert difference_lines(difference) == lines
