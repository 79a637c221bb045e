"""Whether a response does harm, and how coherent it is, as a judge model sees it.

Facts: google-adk 2.13 has both done by the evaluation service of Vertex AI: `safety_v1` is 1 or 0, and
`response_evaluation_score` a grade of coherence from 1 to 5; the case is the mean of its turns. Unlike there a judge
model does both unless a criterion wants the service, and neither needs an expected response, which has no part in what
is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from workbench.metrics.case_view import CaseView, Turn
from workbench.metrics.judges import service
from workbench.metrics.judges.judge_calls import by_majority, by_mean, info_of_judge, read_judge_options
from workbench.metrics.judges.prompts import render
from workbench.metrics.judges.reply_parser import SAFETY, read_grade, read_verdict
from workbench.metrics.judges.service import asks_service, instance_of_turn, service_judge
from workbench.metrics.judges.transcript import response_of
from workbench.metrics.metric_types import Conclusion, Definition, Judge, ModelJudge, ModelQuestion, Opinion, Options
from workbench.model.results import Score

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
