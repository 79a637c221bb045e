"""`per_turn_user_simulator_quality_v1`: the share of the simulated user's messages that follow scenario and persona.

Facts: google-adk 2.13. The first message must be the starting prompt (surrounding spaces do not matter). Each later
message is valid or invalid by the majority of the samples; a tie is invalid. The stop signal is judged like a next
message. If it is invalid, this replaces the verdict of the last turn.

Differences here:
- One violation makes a message invalid, whatever the verdict in the same reply says.
- The end is judged only by whether it was time to end, not by its wording. It is not judged at all if a failure or the
  limit of turns ended the conversation.
- A message without a readable sample is an ERROR; ADK leaves out the turn.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from workbench.llm.prompt_templates import TemplateProblem, render_text
from workbench.metrics.case_view import CaseView, Turn
from workbench.metrics.judges.judge_calls import by_majority, make_judge_info, read_judge_options
from workbench.metrics.judges.judge_prompts import PROMPTS
from workbench.metrics.judges.reply_parser import iter_json_objects, normalise_words, read_verdict, to_text
from workbench.metrics.metric_types import Definition, Judge, ModelJudge, ModelQuestion, Opinion, Options, describe
from workbench.model.evalset import DEFAULT_STOP_SIGNAL, ConversationScenario, UserPersona, find_persona
from workbench.model.results import ConversationEnd, Score

NAME = "per_turn_user_simulator_quality_v1"
_STOP_SIGNAL = "stop_signal"
_NO_SCENARIO = Score.undefined("the case has no scenario, so no user was simulated")
_FAILED = Score.undefined("the conversation ended because it failed")
_LIMIT = Score.undefined("the conversation ended at its limit of turns")
_WRONG_FIRST_MESSAGE = "the first message is not the starting prompt of the scenario"

_SCHEMA = {
    "type": "object",
    "properties": {
        "reasoning": {"type": "string"},
        "violations": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"number": {"type": "integer"}, "evidence": {"type": "string"}},
                "required": ["number", "evidence"],
            },
        },
        "verdict": {"type": "string", "enum": ["valid", "invalid"]},
    },
    "required": ["reasoning", "violations", "verdict"],
}

_NUMBER = re.compile(r"\D{0,16}([0-9]{1,5})(?!\d)")  # "2", "[2]", "violation 2: gives details too early"

_DEFAULT_VIOLATIONS: Mapping[str, Sequence[str]] = {
    "It keeps to the plan": (
        "The message asks for something that the agent has already done.",
        "The message gives details of something that the agent has already done.",
        "The message agrees to another topic or task than those of the plan.",
        "The message asks for something that is not in the plan.",
        "The message gives details that are not in the plan.",
    ),
    "It ends when it should": (
        "The conversation should have ended, and the message does not hold `{{ stop_signal }}`.",
        "The message holds `{{ stop_signal }}` although the plan is not carried out and the agent has not failed.",
        "The agent has handed the user over to a person, and the message goes on.",
    ),
    "It is about goals, one at a time": (
        "The message gives details of a goal before the agent has asked for them.",
        "The message makes more than one new request at once.",
    ),
    "It has some patience": (
        "The message ends the conversation right after the first failure of the agent.",
        "The agent has failed for the second time, and the message does not hold `{{ stop_signal }}`.",
    ),
    "It answers": (
        "The message leaves a question of the agent without an answer.",
        "The agent asked for what is not in the plan, and the message makes it up instead of saying so.",
    ),
    "It corrects the agent": (
        "The agent said something wrong, and the message goes on as if it had not.",
        "The agent took something dangerous for granted, and the message goes on as if it had not.",
    ),
    "It sounds like a person": (
        "The message is hard to read, or full of technical terms that do not belong there.",
        "The message is a bare command.",
        "The message is too formal or too polite for a chat.",
        "The message is one long block of text.",
    ),
}
"""The violations by topic for scenarios without a persona."""


@dataclass(frozen=True)
class _Criterion:
    """Violations of one topic, each with its number in the prompt."""

    name: str
    violations: Sequence[tuple[int, str]]


def ask_message_quality(turn: Turn, view: CaseView, *, stop_signal: str) -> ModelQuestion | Score:
    """Build the question about the user's message of one turn. The first message needs no model."""
    scenario = _find_scenario(view)
    if scenario is None:
        return _NO_SCENARIO
    assert turn.actual is not None
    message = turn.actual.user_content.text_with_markers(thoughts=False)
    if turn is view.turns[0]:
        is_starting_prompt = message.strip() == scenario.starting_prompt.strip()
        return Score(1.0) if is_starting_prompt else Score(0.0, hint=_WRONG_FIRST_MESSAGE)
    earlier_turns = view.turns[: next(index for index, each in enumerate(view.turns) if each is turn)]
    return _build_question(scenario, earlier_turns, message, stop_signal=stop_signal)


def ask_end_quality(view: CaseView, *, stop_signal: str) -> ModelQuestion | Score:
    """Build the question whether the conversation should have ended at this point."""
    scenario = _find_scenario(view)
    if scenario is None:
        return _NO_SCENARIO
    execution = view.subject.execution
    if execution.failure is not None:
        return _FAILED
    if execution.simulation is not None and execution.simulation.end is ConversationEnd.LIMIT:
        return _LIMIT
    return _build_question(scenario, view.turns, None, stop_signal=stop_signal)


def _find_scenario(view: CaseView) -> ConversationScenario | None:
    return None if view.subject.case is None else view.subject.case.conversation_scenario


def _build_question(
    scenario: ConversationScenario, earlier_turns: Sequence[Turn], message: str | None, *, stop_signal: str
) -> ModelQuestion:
    """Build the question about a message, or about the end if `message` is None.

    Raises ValueError for an unknown persona, and for texts of a persona that are no templates.
    """
    persona = find_persona(scenario)
    criteria = _number_violations(persona, stop_signal)
    prompt = PROMPTS.render(
        "user_quality",
        stop_signal=stop_signal,
        persona="" if persona is None else persona.description,
        criteria=criteria,
        plan=scenario.conversation_plan,
        history=_format_history(earlier_turns),
        message=message,
    )
    violations = {number: text for criterion in criteria for number, text in criterion.violations}
    return ModelQuestion(
        prompt=prompt,
        reply_schema=_SCHEMA,
        read=partial(read_violations, violations=violations),
        conclude=by_majority,
    )


def _number_violations(persona: UserPersona | None, stop_signal: str) -> list[_Criterion]:
    """Number the violations. As in ADK, texts of a persona are templates that may contain the stop signal."""
    texts: Mapping[str, Sequence[str]] = (
        _DEFAULT_VIOLATIONS
        if persona is None
        else {behavior.name: behavior.violation_rubrics for behavior in persona.behaviors}
    )
    criteria: list[_Criterion] = []
    number = 0
    for name, violations in texts.items():
        numbered: list[tuple[int, str]] = []
        for violation in violations:
            number += 1
            try:
                numbered.append((number, render_text(violation, {_STOP_SIGNAL: stop_signal})))
            except TemplateProblem as error:
                place = "" if persona is None else f"the persona {persona.id!r}, behavior {name!r}: "
                raise ValueError(
                    f"{place}the violation rubric {describe(violation)} is not a template: {error}"
                ) from error
        criteria.append(_Criterion(name, numbered))
    return criteria


def _format_history(turns: Sequence[Turn]) -> str:
    """Return the texts of user and agent. A user does not see tool calls."""
    lines: list[str] = []
    for turn in turns:
        if turn.actual is not None:
            lines.append(f"user: {turn.actual.user_content.text_with_markers(thoughts=False)}")
            lines.append(f"agent: {turn.actual.response_text(thoughts=False) or ''}")
    return "\n\n".join(lines)


def read_violations(reply: str, violations: Mapping[int, str]) -> Opinion:
    """Read a reply: invalid (0) if the verdict says so or a violation is listed, else valid (1)."""
    violated = list(dict.fromkeys(_find_violations(reply, violations)))
    if violated:
        reasons = (f"{violations[number]}{f' ({evidence})' if evidence else ''}" for number, evidence in violated)
        return Opinion(0.0, "; ".join(reasons))
    return read_verdict(reply)


def _find_violations(reply: str, violations: Mapping[int, str]) -> list[tuple[int, str]]:
    violated: list[tuple[int, str]] = []
    for json_object in iter_json_objects(reply):
        listed = next((value for key, value in json_object.items() if normalise_words(key) == "violations"), None)
        for item in listed if isinstance(listed, list) else []:
            values: Mapping[str, Any] = item if isinstance(item, Mapping) else {"number": item}
            number = _NUMBER.match(to_text(values.get("number")))
            if number is not None and int(number[1]) in violations:
                violated.append((int(number[1]), to_text(values.get("evidence"))))
    return violated


def _read_stop_signal(options: Options) -> str:
    value = options.raw(_STOP_SIGNAL)
    if value is None:
        return DEFAULT_STOP_SIGNAL
    if isinstance(value, str) and value.strip():
        return value
    options.refuse(_STOP_SIGNAL, found=describe(value), expected="a text that ends the conversation")
    return DEFAULT_STOP_SIGNAL


def _prepare(options: Options) -> Sequence[Judge]:
    stop_signal = _read_stop_signal(options)
    return [
        ModelJudge(
            name=NAME,
            options=read_judge_options(options),
            ask=partial(ask_message_quality, stop_signal=stop_signal),
            ask_end=partial(ask_end_quality, stop_signal=stop_signal),
        )
    ]


METRICS: Sequence[Definition] = (
    Definition(
        info=make_judge_info(
            NAME,
            purpose="Share of the simulated user's messages that follow the scenario.",
            when="Simulated users must be reliable.",
            options={
                _STOP_SIGNAL: f"what ends the conversation in a message of the user (default {DEFAULT_STOP_SIGNAL})",
            },
        ),
        prepare=_prepare,
    ),
)
