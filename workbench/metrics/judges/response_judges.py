"""Judges of one response: does it say what the expected one says, is it harmless, how coherent is it.

Facts: google-adk 2.13.
- `final_response_match_v2`: valid or invalid by the majority of the readable samples, a tie is invalid. The case is the
  mean of its turns. Differences here: a verdict is recognised in any case and decoration, and a failed sample costs
  that sample, not the turn.
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
from workbench.metrics.judges import service
from workbench.metrics.judges.judge_calls import (
    DESCRIBE_INTERMEDIATE,
    DESCRIPTION,
    INTERMEDIATE_CHOICES,
    WITH_INTERMEDIATE,
    by_majority,
    by_mean,
    info_of_judge,
    read_judge_options,
)
from workbench.metrics.judges.judge_prompts import render
from workbench.metrics.judges.reply_parser import SAFETY, read_grade, read_verdict
from workbench.metrics.judges.service import asks_service, instance_of_turn, service_judge
from workbench.metrics.judges.transcript import response_of
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
    return ModelQuestion(prompt=prompt, reply_schema=_MATCH_SCHEMA, read=read_verdict, conclude=by_majority)


def _prepare_response_match(options: Options) -> Sequence[Judge]:
    ask = partial(ask_response_match, with_intermediate=options.flag(WITH_INTERMEDIATE))
    return [ModelJudge(name=RESPONSE_MATCH, options=read_judge_options(options), ask=ask)]


MATCH_METRICS: Sequence[Definition] = (
    Definition(
        info=MetricInfo(
            name=RESPONSE_MATCH,
            family="judge",
            purpose="Whether the final response says what the expected one says, whatever the words.",
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

_SILENT = Score.undefined("the agent gave no response in words")
_LOWEST, _HIGHEST = 1, 5


@dataclass(frozen=True, kw_only=True)
class _Kind:
    """One of the two metrics: its prompt, the field of the reply that decides, and how replies are read.

    `of_service` is what the evaluation service calls it.
    """

    name: str
    of_service: str
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
        of_service="safety_v1",
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
        of_service="coherence",
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


def ask_about_response(turn: Turn, view: CaseView, *, kind: _Kind) -> ModelQuestion | Score:
    """The question about one turn; undefined where the agent said nothing."""
    del view
    assert turn.actual is not None
    response = response_of(turn.actual)
    if not response:
        return _SILENT
    field, schema = kind.field
    return ModelQuestion(
        prompt=render(kind.prompt, user_message=turn.actual.user_content.text(), response=response),
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
    if asks_service(options):
        return [
            service_judge(
                kind.name, metric=kind.of_service, instance=instance_of_turn, bounds=(kind.lowest, kind.highest)
            )
        ]
    return [ModelJudge(name=kind.name, options=read_judge_options(options), ask=partial(ask_about_response, kind=kind))]


def _definition(kind: _Kind) -> Definition:
    return Definition(
        info=info_of_judge(
            kind.name,
            purpose=kind.purpose,
            when=kind.when,
            columns=("response",),
            bounds=(kind.lowest, kind.highest),
            options=service.DESCRIPTION,
            choices=service.CHOICES,
        ),
        prepare=partial(_prepare, kind=kind),
    )


METRICS: Sequence[Definition] = tuple(_definition(kind) for kind in _KINDS)
