"""Whether the final response says what the expected one says, as a judge model sees it.

Facts: google-adk 2.13, `final_response_match_v2`: valid or invalid by the majority of the samples that can be read, a
tie is invalid, the case is the mean of its turns. Unlike there a verdict is read in any case and inside any decoration,
and a sample that fails costs that sample, not the turn.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from workbench.metrics.case_view import CaseView, Turn
from workbench.metrics.judges.judge_calls import (
    DESCRIBE_INTERMEDIATE,
    DESCRIPTION,
    INTERMEDIATE_CHOICES,
    WITH_INTERMEDIATE,
    by_majority,
    read_judge_options,
)
from workbench.metrics.judges.prompts import render
from workbench.metrics.judges.reply_parser import read_verdict
from workbench.metrics.judges.transcript import response_of
from workbench.metrics.metric_types import Definition, Judge, MetricInfo, ModelJudge, ModelQuestion, Options
from workbench.model.results import Score

NAME = "final_response_match_v2"
_NO_REFERENCE = Score.undefined("the case has no expected response")
_NO_COLUMN = Score.undefined("the row has no reference")
_SCHEMA = {
    "type": "object",
    "properties": {"reasoning": {"type": "string"}, "verdict": {"type": "string", "enum": ["valid", "invalid"]}},
    "required": ["reasoning", "verdict"],
}


def ask_response_match(turn: Turn, view: CaseView, *, with_intermediate: bool) -> ModelQuestion | Score:
    """The question about one turn; undefined where nothing was expected of the response."""
    del view
    if turn.expected is None or turn.expected.final_response is None:
        return _NO_COLUMN if turn.is_row else _NO_REFERENCE
    prompt = render(
        "response_match",
        user_prompt=turn.expected.user_content.text(),
        reference=response_of(turn.expected, with_intermediate=with_intermediate),
        response=response_of(turn.actual, with_intermediate=with_intermediate),
    )
    return ModelQuestion(prompt=prompt, reply_schema=_SCHEMA, read=read_verdict, conclude=by_majority)


def _prepare(options: Options) -> Sequence[Judge]:
    ask = partial(ask_response_match, with_intermediate=options.flag(WITH_INTERMEDIATE))
    return [ModelJudge(name=NAME, options=read_judge_options(options), ask=ask)]


METRICS: Sequence[Definition] = (
    Definition(
        info=MetricInfo(
            name=NAME,
            family="judge",
            purpose="Whether the final response says what the expected one says, whatever the words.",
            when="Answers are free text.",
            needs=frozenset({"judge"}),
            columns=("response",),
            options={**DESCRIPTION, **DESCRIBE_INTERMEDIATE},
            choices=INTERMEDIATE_CHOICES,
        ),
        prepare=_prepare,
    ),
)
