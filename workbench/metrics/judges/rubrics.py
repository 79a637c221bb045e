"""Rubric judges: the share of the rubrics that the answer, the use of tools or the conversation meets.

Facts: google-adk 2.13.
- `rubric_based_*_quality_v1`: yes or no for each rubric by the majority of the samples, a tie is no. A rubric that does
  not apply counts as yes. The case is the mean of all rubric scores of all turns. Difference here: each turn is judged
  by its own rubrics.
- `multi_turn_*_v1`: ADK uses the evaluation service of Vertex AI, once, on the last turn; earlier turns have no score.
  The service writes rubrics for the conversation and returns the share that is met, in [0, 1]. The judge here does the
  same unless the criterion selects the service: it first lists properties without seeing what the agent did, and its
  samples then decide on each property.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from workbench.metrics.case_view import CaseView, Turn
from workbench.metrics.judges.judge_calls import (
    DESCRIBE_INTERMEDIATE,
    INTERMEDIATE_CHOICES,
    SCORER_CHOICES,
    SCORER_DESCRIPTION,
    WITH_INTERMEDIATE,
    build_conversation_instance,
    by_rubrics,
    is_scored_by_service,
    make_judge_info,
    make_service_judge,
    read_judge_options,
)
from workbench.metrics.judges.judge_prompts import PROMPTS
from workbench.metrics.judges.reply_parser import read_properties, read_rubrics
from workbench.metrics.judges.transcript import (
    format_conversation,
    format_grounding,
    format_instructions,
    format_response,
    format_steps,
    format_tools,
)
from workbench.metrics.metric_types import (
    Definition,
    Judge,
    ModelJudge,
    ModelQuestion,
    Options,
    PreparingQuestion,
    describe,
)
from workbench.model.evalset import Rubric
from workbench.model.results import Score

Subject = Literal["answer", "tools", "conversation"]

COLUMNS: Mapping[Subject, Sequence[str]] = {
    "answer": ("response",),
    "tools": ("predicted_trajectory",),
    "conversation": ("response", "predicted_trajectory"),
}
"""A row must have one of these columns; otherwise there is nothing to judge."""

# Rubrics that cases and criteria bring.

_VERDICTS = ["yes", "no", "not applicable"]
_PROPERTY = {
    "type": "object",
    "properties": {
        "id": {"type": "string"},
        "evidence": {"type": "string"},
        "rationale": {"type": "string"},
        "verdict": {"type": "string", "enum": _VERDICTS},
    },
    "required": ["id", "rationale", "verdict"],
}
_SCHEMA = {
    "type": "object",
    "properties": {"properties": {"type": "array", "items": _PROPERTY}},
    "required": ["properties"],
}


@dataclass(frozen=True)
class _Kind:
    """One of the three metrics. It uses the rubrics of cases and turns that have its `type`."""

    name: str
    subject: Subject
    type: str
    purpose: str
    when: str


_KINDS = (
    _Kind(
        "rubric_based_final_response_quality_v1",
        "answer",
        "FINAL_RESPONSE_QUALITY",
        "Share of the rubrics that the final response meets.",
        "Many answers are right, but the requirements are clear.",
    ),
    _Kind(
        "rubric_based_tool_use_quality_v1",
        "tools",
        "TOOL_USE_QUALITY",
        "Share of the rubrics that the use of tools meets.",
        "Several paths are fine, within rules.",
    ),
    _Kind(
        "rubric_based_multi_turn_trajectory_quality_v1",
        "conversation",
        "TRAJECTORY_QUALITY",
        "Share of the rubrics that the whole conversation meets.",
        "The path through a long conversation matters.",
    ),
)


def ask_rubrics(
    turn: Turn, view: CaseView, *, kind: _Kind, criterion_rubrics: Mapping[str, str], with_intermediate: bool
) -> ModelQuestion | Score:
    """Build the question about one turn, or about the conversation that ends with it.

    `with_intermediate`: intermediate responses are part of the judged answer. Raises ValueError for duplicate ids.
    """
    assert turn.actual is not None
    case = view.subject.case
    case_rubrics = [] if case is None else list(case.rubrics or ())
    if turn.expected is not None:
        case_rubrics += turn.expected.rubrics or ()
    rubrics = _merge_rubrics(
        criterion_rubrics,
        [(each.rubric_id, read_property(each)) for each in case_rubrics if (each.type or "").upper() == kind.type],
    )
    if not rubrics:
        return Score.undefined(
            f"there is no rubric: add one to the criterion, or one of type {kind.type} to the case or the turn"
        )
    if kind.subject == "conversation":
        return ask_conversation_rubrics([each for each in view.turns if each.actual is not None], rubrics)
    return _build_question([turn], rubrics, kind.subject, with_intermediate=with_intermediate)


def ask_conversation_rubrics(turns: Sequence[Turn], rubrics: Mapping[str, str]) -> ModelQuestion:
    """Build the question which rubrics (texts by id) a conversation meets. All turns must be finished."""
    return _build_question(turns, rubrics, "conversation")


def _build_question(
    turns: Sequence[Turn], rubrics: Mapping[str, str], subject: Subject, *, with_intermediate: bool = False
) -> ModelQuestion:
    last_turn = turns[-1].actual
    assert last_turn is not None
    prompt = PROMPTS.render(
        "rubrics",
        subject=subject,
        instructions=format_instructions(turns),
        tools=format_tools(turns),
        dialogue=format_conversation(turns),
        user_message=last_turn.user_content.text_with_markers(),
        steps=format_steps(last_turn),
        grounding=format_grounding(last_turn),
        response=format_response(last_turn, with_intermediate=with_intermediate),
        rubrics=rubrics,
    )
    return ModelQuestion(
        prompt=prompt,
        reply_schema=_SCHEMA,
        read=partial(read_rubrics, rubrics=rubrics),
        conclude=partial(by_rubrics, rubrics=rubrics),
    )


def _merge_rubrics(criterion_rubrics: Mapping[str, str], other_rubrics: Iterable[tuple[str, str]]) -> dict[str, str]:
    joined = dict(criterion_rubrics)
    for rubric_id, text in other_rubrics:
        if rubric_id in joined:
            raise ValueError(f"duplicate rubric_id {rubric_id!r}; make it unique")
        joined[rubric_id] = text
    return joined


def read_property(rubric: Rubric) -> str:
    """Return the property that a rubric states; empty if it has none."""
    content = rubric.rubric_content
    text = content.get("text_property", content.get("textProperty"))
    return text if isinstance(text, str) else ""


def _read_rubrics(options: Options) -> dict[str, str]:
    value: Any = options.raw("rubrics")
    if value is None:
        return {}
    if not isinstance(value, list):
        options.refuse("rubrics", found=describe(value), expected="a list of rubrics")
        return {}
    rubrics: dict[str, str] = {}
    for number, item in enumerate(value):
        place = f"rubrics[{number}]"
        try:
            rubric = Rubric.model_validate(item)
        except ValueError:
            expected = 'an object with "rubric_id" and "rubric_content": {"text_property": "..."}'
            options.refuse(place, found=describe(item), expected=expected)
            continue
        if not read_property(rubric):
            options.refuse(f"{place}.rubric_content.text_property", found="no text", expected="the property, as a text")
        elif rubric.rubric_id in rubrics:
            options.refuse(f"{place}.rubric_id", found=f"{rubric.rubric_id!r} once more", expected="a unique id")
        else:
            rubrics[rubric.rubric_id] = read_property(rubric)
    return rubrics


def _prepare(options: Options, *, kind: _Kind) -> Sequence[Judge]:
    with_intermediate = kind.subject == "answer" and options.flag(WITH_INTERMEDIATE)
    ask = partial(ask_rubrics, kind=kind, criterion_rubrics=_read_rubrics(options), with_intermediate=with_intermediate)
    judges_conversation = kind.subject == "conversation"
    return [
        ModelJudge(
            name=kind.name, options=read_judge_options(options), ask=ask, judges_conversation=judges_conversation
        )
    ]


def _define(kind: _Kind) -> Definition:
    return Definition(
        info=make_judge_info(
            kind.name,
            purpose=kind.purpose,
            when=kind.when,
            columns=COLUMNS[kind.subject],
            options={
                "rubrics": f"properties, in addition to those of type {kind.type} in cases and turns",
                **(DESCRIBE_INTERMEDIATE if kind.subject == "answer" else {}),
            },
            choices=INTERMEDIATE_CHOICES if kind.subject == "answer" else {},
        ),
        prepare=partial(_prepare, kind=kind),
    )


METRICS: Sequence[Definition] = tuple(_define(kind) for kind in _KINDS)


# Rubrics that the judge writes for a conversation.

_MOST_PROPERTIES = 10  # properties
_PROPERTIES_SCHEMA = {
    "type": "object",
    "properties": {"properties": {"type": "array", "items": {"type": "string"}}},
    "required": ["properties"],
}


@dataclass(frozen=True, kw_only=True)
class _ConversationKind:
    """One of the three metrics."""

    name: str
    subject: Literal["task", "trajectory", "tools"]
    purpose: str
    when: str


_CONVERSATION_KINDS = (
    _ConversationKind(
        name="multi_turn_task_success_v1",
        subject="task",
        purpose="Share of its goals that the conversation reached.",
        when="Long tasks, whatever the path.",
    ),
    _ConversationKind(
        name="multi_turn_trajectory_quality_v1",
        subject="trajectory",
        purpose="How good the path of the conversation was.",
        when="The path matters as well.",
    ),
    _ConversationKind(
        name="multi_turn_tool_use_quality_v1",
        subject="tools",
        purpose="How good the tool calls of the conversation were.",
        when="Tools do the work.",
    ),
)


def ask_for_properties(turn: Turn, view: CaseView, *, kind: _ConversationKind) -> PreparingQuestion:
    """Build the question for the properties that a good conversation should have; the reply gives the rubrics."""
    del turn
    turns = [each for each in view.turns if each.actual is not None]
    case = view.subject.case
    scenario = None if case is None else case.conversation_scenario
    prompt = PROMPTS.render(
        "properties",
        subject=kind.subject,
        instructions=format_instructions(turns),
        tools=format_tools(turns),
        plan="" if scenario is None else scenario.conversation_plan,
        dialogue=format_conversation(turns, with_steps=False),
    )
    return PreparingQuestion(
        prompt=prompt, reply_schema=_PROPERTIES_SCHEMA, read=partial(_ask_about_properties, turns=turns)
    )


def _ask_about_properties(reply: str, *, turns: Sequence[Turn]) -> ModelQuestion:
    properties = read_properties(reply)[:_MOST_PROPERTIES]
    return ask_conversation_rubrics(turns, {f"p{number}": text for number, text in enumerate(properties, start=1)})


def _prepare_conversation_metric(options: Options, *, kind: _ConversationKind) -> Sequence[Judge]:
    if is_scored_by_service(options):
        return [
            make_service_judge(
                kind.name, metric=kind.name, instance=build_conversation_instance, judges_conversation=True
            )
        ]
    ask = partial(ask_for_properties, kind=kind)
    return [
        ModelJudge(
            name=kind.name, options=read_judge_options(options), ask=ask, judges_conversation=True, prepares=True
        )
    ]


def _define_conversation_metric(kind: _ConversationKind) -> Definition:
    return Definition(
        info=make_judge_info(
            kind.name,
            purpose=kind.purpose,
            when=kind.when,
            columns=COLUMNS["tools" if kind.subject == "tools" else "conversation"],
            options=SCORER_DESCRIPTION,
            choices=SCORER_CHOICES,
        ),
        prepare=partial(_prepare_conversation_metric, kind=kind),
    )


CONVERSATION_METRICS: Sequence[Definition] = tuple(_define_conversation_metric(kind) for kind in _CONVERSATION_KINDS)
