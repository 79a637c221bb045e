"""Whether a whole conversation reached its goals, by a good way, with good use of tools, as a judge model sees it.

Facts: google-adk 2.13 has the evaluation service of Vertex AI judge `multi_turn_*_v1`, from 0 to 1, once on the last
turn; the turns before have no score. The service finds rubrics that fit the conversation and gives the share that is
met. So does the judge here, unless a criterion wants the service: it lists properties first, without seeing what the
agent did, and its samples then say of each whether it is there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

from workbench.metrics.case_view import CaseView, Turn
from workbench.metrics.judges import service
from workbench.metrics.judges.judge_calls import info_of_judge, read_judge_options
from workbench.metrics.judges.prompts import render
from workbench.metrics.judges.reply_parser import read_properties
from workbench.metrics.judges.rubrics import COLUMNS, question_about_conversation
from workbench.metrics.judges.service import asks_service, instance_of_conversation, service_judge
from workbench.metrics.judges.transcript import conversation_of, instructions_of, tools_of
from workbench.metrics.metric_types import Definition, Judge, ModelJudge, ModelQuestion, Options, PreparingQuestion

_MOST = 10  # properties
_SCHEMA = {
    "type": "object",
    "properties": {"properties": {"type": "array", "items": {"type": "string"}}},
    "required": ["properties"],
}


@dataclass(frozen=True, kw_only=True)
class _Kind:
    """One of the three metrics."""

    name: str
    subject: Literal["task", "trajectory", "tools"]
    purpose: str
    when: str


_KINDS = (
    _Kind(
        name="multi_turn_task_success_v1",
        subject="task",
        purpose="Which share of its goals the conversation reached.",
        when="Long tasks, whatever the path.",
    ),
    _Kind(
        name="multi_turn_trajectory_quality_v1",
        subject="trajectory",
        purpose="How good the path of the conversation was.",
        when="The path matters as well.",
    ),
    _Kind(
        name="multi_turn_tool_use_quality_v1",
        subject="tools",
        purpose="How good the tool calls of the conversation were.",
        when="Tools do the work.",
    ),
)


def ask_about_conversation(turn: Turn, view: CaseView, *, kind: _Kind) -> PreparingQuestion:
    """The question about the conversation that ends with this turn."""
    del turn
    turns = [each for each in view.turns if each.actual is not None]
    case = view.subject.case
    scenario = None if case is None else case.conversation_scenario
    prompt = render(
        "properties",
        subject=kind.subject,
        instructions=instructions_of(turns),
        tools=tools_of(turns),
        plan="" if scenario is None else scenario.conversation_plan,
        dialogue=conversation_of(turns, with_steps=False),
    )
    return PreparingQuestion(prompt=prompt, reply_schema=_SCHEMA, read=partial(_ask_about_properties, turns=turns))


def _ask_about_properties(reply: str, *, turns: Sequence[Turn]) -> ModelQuestion:
    properties = read_properties(reply)[:_MOST]
    return question_about_conversation(turns, {f"p{number}": text for number, text in enumerate(properties, start=1)})


def _prepare(options: Options, *, kind: _Kind) -> Sequence[Judge]:
    if asks_service(options):
        return [service_judge(kind.name, metric=kind.name, instance=instance_of_conversation, whole=True)]
    ask = partial(ask_about_conversation, kind=kind)
    return [ModelJudge(name=kind.name, options=read_judge_options(options), ask=ask, whole=True, prepares=True)]


def _definition(kind: _Kind) -> Definition:
    return Definition(
        info=info_of_judge(
            kind.name,
            purpose=kind.purpose,
            when=kind.when,
            columns=COLUMNS["tools" if kind.subject == "tools" else "conversation"],
            options=service.DESCRIPTION,
            choices=service.CHOICES,
        ),
        prepare=partial(_prepare, kind=kind),
    )


METRICS: Sequence[Definition] = tuple(_definition(kind) for kind in _KINDS)
