"""Judges of one response: agreement with the expected response, safety and coherence.

Facts: google-adk 2.13.
- `final_response_match_v2`: valid or invalid by the majority of the readable samples, a tie is invalid. The case is the
  mean of its turns. Differences here: a verdict is recognised in any case and decoration, and a failed sample does not
  fail its turn.
- `safety_v1` (1 or 0) and `response_evaluation_score` (coherence, a grade from 1 to 5): ADK uses the evaluation service
  of Vertex AI. The case is the mean of its turns. Differences here: a judge model scores unless the criterion selects
  the service. No expected response is needed, and the judge does not see one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from workbench.metrics.case_view import CaseView, Turn
from workbench.metrics.judges.judge_calls import (
    DESCRIBE_INTERMEDIATE,
    DESCRIPTION,
    INTERMEDIATE_CHOICES,
    SCORER_CHOICES,
    SCORER_DESCRIPTION,
    WITH_INTERMEDIATE,
    build_turn_instance,
    by_majority,
    by_mean,
    is_scored_by_service,
    make_judge_info,
    make_service_judge,
    read_judge_options,
)
from workbench.metrics.judges.judge_prompts import PROMPTS
from workbench.metrics.judges.reply_parser import SAFETY, read_grade, read_verdict
from workbench.metrics.judges.transcript import format_response
from workbench.metrics.metric_types import (
    Conclusion,
    Definition,
    Judge,
    MetricInfo,
    ModelJudge,
    ModelQuestion,
    Opinion,
    Options,
)
from workbench.model.results import Score

# Agreement with the expected response.

RESPONSE_MATCH = "final_response_match_v2"
_NO_REFERENCE = Score.undefined("the case has no expected response")
_NO_COLUMN = Score.undefined("the row has no reference")
_MATCH_SCHEMA = {
    "type": "object",
    "properties": {"reasoning": {"type": "string"}, "verdict": {"type": "string", "enum": ["valid", "invalid"]}},
    "required": ["reasoning", "verdict"],
}


def ask_response_match(turn: Turn, view: CaseView, *, with_intermediate: bool) -> ModelQuestion | Score:
    """Build the question about one turn; undefined if the turn has no expected response."""
    del view
    if turn.expected is None or turn.expected.final_response is None:
        return _NO_COLUMN if turn.is_row else _NO_REFERENCE
    prompt = PROMPTS.render(
        "response_match",
        user_prompt=turn.expected.user_content.text_with_markers(),
        reference=format_response(turn.expected, with_intermediate=with_intermediate),
        response=format_response(turn.actual, with_intermediate=with_intermediate),
    )
    return ModelQuestion(prompt=prompt, reply_schema=_MATCH_SCHEMA, read=read_verdict, conclude=by_majority)


def _prepare_response_match(options: Options) -> Sequence[Judge]:
    ask = partial(ask_response_match, with_intermediate=options.flag(WITH_INTERMEDIATE))
    return [ModelJudge(name=RESPONSE_MATCH, options=read_judge_options(options), ask=ask)]


MATCH_METRICS: Sequence[Definition] = (
    Definition(
        info=MetricInfo(
            name=RESPONSE_MATCH,
            family="judge",
            purpose="Whether the final response means the same as the expected one, in any words.",
            when="Answers are free text.",
            needs=frozenset({"judge"}),
            columns=("response",),
            options={**DESCRIPTION, **DESCRIBE_INTERMEDIATE},
            choices=INTERMEDIATE_CHOICES,
        ),
        prepare=_prepare_response_match,
    ),
)


# Safety and coherence.

_NO_TEXT = Score.undefined("the agent gave no response in words")
_LOWEST, _HIGHEST = 1, 5


@dataclass(frozen=True, kw_only=True)
class _Kind:
    """One of the two metrics: its prompt, the deciding field of the reply, and how replies are read.

    `service_name` is its name in the evaluation service.
    """

    name: str
    service_name: str
    prompt: str
    field: tuple[str, dict[str, Any]]
    read: Callable[[str], Opinion]
    conclude: Callable[[Sequence[Opinion]], Conclusion]
    lowest: float
    highest: float
    purpose: str
    when: str


_KINDS = (
    _Kind(
        name="safety_v1",
        service_name="safety_v1",
        prompt="safety",
        field=("verdict", {"type": "string", "enum": ["safe", "unsafe"]}),
        read=partial(read_verdict, words=SAFETY),
        conclude=by_majority,
        lowest=0.0,
        highest=1.0,
        purpose="Whether the response is harmless.",
        when="Anyone may talk to the agent.",
    ),
    _Kind(
        name="response_evaluation_score",
        service_name="coherence",
        prompt="coherence",
        field=("grade", {"type": "integer", "minimum": _LOWEST, "maximum": _HIGHEST}),
        read=partial(read_grade, lowest=_LOWEST, highest=_HIGHEST),
        conclude=by_mean,
        lowest=_LOWEST,
        highest=_HIGHEST,
        purpose="How coherent the response is, from 1 to 5.",
        when="The language of the answers matters.",
    ),
)


def ask_response_quality(turn: Turn, view: CaseView, *, kind: _Kind) -> ModelQuestion | Score:
    """Build the question about one turn; undefined if the response has no text."""
    del view
    assert turn.actual is not None
    response = format_response(turn.actual)
    if not response:
        return _NO_TEXT
    field, schema = kind.field
    return ModelQuestion(
        prompt=PROMPTS.render(
            kind.prompt, user_message=turn.actual.user_content.text_with_markers(), response=response
        ),
        reply_schema={
            "type": "object",
            "properties": {"reasoning": {"type": "string"}, field: schema},
            "required": ["reasoning", field],
        },
        read=kind.read,
        conclude=kind.conclude,
        lowest=kind.lowest,
        best=kind.highest,
    )


def _prepare(options: Options, *, kind: _Kind) -> Sequence[Judge]:
    if is_scored_by_service(options):
        return [
            make_service_judge(
                kind.name, metric=kind.service_name, instance=build_turn_instance, bounds=(kind.lowest, kind.highest)
            )
        ]
    return [
        ModelJudge(name=kind.name, options=read_judge_options(options), ask=partial(ask_response_quality, kind=kind))
    ]


def _define(kind: _Kind) -> Definition:
    return Definition(
        info=make_judge_info(
            kind.name,
            purpose=kind.purpose,
            when=kind.when,
            columns=("response",),
            bounds=(kind.lowest, kind.highest),
            options=SCORER_DESCRIPTION,
            choices=SCORER_CHOICES,
        ),
        prepare=partial(_prepare, kind=kind),
    )


METRICS: Sequence[Definition] = tuple(_define(kind) for kind in _KINDS)
