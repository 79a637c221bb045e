"""Scores of the evaluation service of Vertex AI, for criteria that select it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from workbench.llm.model_types import VERTEX_EVALUATION
from workbench.metrics.case_view import CaseView, Turn
from workbench.metrics.judges import judge_calls as judge_options
from workbench.metrics.judges.judge_calls import by_mean
from workbench.metrics.judges.reply_parser import describe_unreadable
from workbench.metrics.judges.transcript import find_agents, format_response, list_intermediate_parts
from workbench.metrics.metric_types import (
    JudgeOptions,
    ModelJudge,
    ModelQuestion,
    Opinion,
    Options,
    describe,
    is_number,
)
from workbench.model.results import Score

SCORER = "scorer"
SCORERS = ("judge", "vertex")
CHOICES: Mapping[str, Sequence[str | bool]] = {SCORER: SCORERS}
DESCRIPTION = {SCORER: "what scores: judge (default), a model; vertex, the evaluation service of Vertex AI"}

Instance = Callable[[Turn, CaseView], Mapping[str, Any] | Score]


def is_scored_by_service(options: Options) -> bool:
    """True if the criterion selects the service. Options for a judge model are a problem then."""
    if options.choice(SCORER, SCORERS, default="judge") != "vertex":
        return False
    given = options.raw(judge_options.OPTION)
    if given is not None:
        options.refuse(
            judge_options.OPTION,
            found=describe(given),
            expected=f'none, as with "{SCORER}": "vertex" no model is asked',
        )
    return True


def make_service_judge(
    name: str, *, metric: str, instance: Instance, bounds: tuple[float, float] = (0.0, 1.0), whole: bool = False
) -> ModelJudge:
    """Make a judge that asks the service once.

    `metric` is the service's name of the metric. `instance` builds the data to score.
    """
    lowest, best = bounds

    def ask(turn: Turn, view: CaseView) -> ModelQuestion | Score:
        found = instance(turn, view)
        if isinstance(found, Score):
            return found
        prompt = json.dumps({"metric": metric, "instance": found}, ensure_ascii=False, indent=1)
        return ModelQuestion(
            prompt=prompt, reply_schema={}, read=read_service_reply, conclude=by_mean, lowest=lowest, best=best
        )

    options = JudgeOptions(model=f"{VERTEX_EVALUATION}{metric}", samples=1)
    return ModelJudge(name=name, options=options, ask=ask, whole=whole)


def build_turn_instance(turn: Turn, view: CaseView) -> Mapping[str, Any] | Score:
    """Build the data of one message and its response, with the expected response if there is one."""
    del view
    assert turn.actual is not None
    response = format_response(turn.actual)
    if not response:
        return Score.undefined("the agent gave no response in words")
    instance = {"prompt": turn.actual.user_content.text(thoughts=False), "response": response}
    reference = format_response(turn.expected)
    return {**instance, "reference": reference} if reference else instance


def build_conversation_instance(turn: Turn, view: CaseView) -> Mapping[str, Any]:
    """Build the data of the whole conversation, with the details of the agents."""
    del turn
    turns = [each for each in view.turns if each.actual is not None]
    agents = {
        name: {
            "agent_id": name,
            "instruction": agent.get("instructions") or "",
            "tools": agent.get("tool_declarations") or [],
        }
        for name, agent in find_agents(turns).items()
    }
    data = [{"turn_index": number, "events": _list_events(each)} for number, each in enumerate(turns)]
    return {"agent_data": {"agents": agents, "turns": data}}


def _list_events(turn: Turn) -> Sequence[Mapping[str, Any]]:
    assert turn.actual is not None
    said = [("user", turn.actual.user_content.parts or ()), *list_intermediate_parts(turn.actual)]
    if turn.actual.final_response is not None:
        said.append(("agent", turn.actual.final_response.parts or ()))
    events = []
    for author, parts in said:
        written = [part.model_dump(mode="json", exclude_none=True) for part in parts if not part.thought]
        if written:
            role = "user" if author == "user" else "model"
            events.append({"author": author, "content": {"role": role, "parts": written}})
    return events


def read_service_reply(reply: str) -> Opinion:
    """Read the score of the service, its explanation and its rubrics."""
    try:
        result = json.loads(reply)
    except ValueError:
        result = None
    if not isinstance(result, Mapping) or not is_number(result.get("score")):
        return Opinion(problem=describe_unreadable(reply, "a score"))
    reasons = [str(result.get("explanation") or "")]
    for rubric in result.get("rubrics") or ():
        why = f" ({rubric['reasoning']})" if rubric.get("reasoning") else ""
        reasons.append(f"{'met' if rubric.get('met') else 'not met'}: {rubric.get('text')}{why}")
    return Opinion(float(result["score"]), "; ".join(filter(None, reasons)))
