"""Scenarios that a model writes."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from workbench.llm.model_types import Ask, Message, ModelError, ModelReply, ModelRequest, Trouble, ask_for_readable
from workbench.metrics.judges.reply_parser import iter_json_objects, normalise_words
from workbench.model.evalset import PERSONAS, ConversationScenario, ScenarioRequest
from workbench.model.target import AgentDescription
from workbench.model.text import one_line, pluralise, suggest_name
from workbench.simulation.scenario_templates import PROMPTS
from workbench.simulation.users import UserOptions, check_scenario

# Parsing of scenarios from replies, in the requested JSON or in unambiguous variants of it.

NO_PERSONA = "NONE"

_STARTS = ("startingprompt", "prompt")
_PLANS = ("conversationplan", "plan")
_PERSONAS = ("userpersona", "persona")
_NO_PERSONA_WORDS = frozenset({"", "none", "null", "no persona"})
_SCENARIO_WIDTH = 60  # characters of a scenario in a note


@dataclass(frozen=True, kw_only=True)
class ScenarioDraft:
    """A scenario as the model wrote it, or the problem with it."""

    scenario: ConversationScenario | None
    problem: str = ""


def read_drafts(reply: str, *, personas: Sequence[str], persona_required: bool) -> list[ScenarioDraft]:
    """Parse the scenarios in a reply; of a truncated reply, the complete ones.

    `personas` are the allowed ids. If a persona is `persona_required`, a scenario without one is a problem.
    """
    return [_read_draft(draft, personas=personas, persona_required=persona_required) for draft in _find_objects(reply)]


def _find_objects(reply: str) -> Iterator[Mapping[str, str | Any]]:
    for json_object in iter_json_objects(reply):
        normalised = _normalize_keys(json_object)
        if any(key in normalised for key in (*_STARTS, *_PLANS)):
            yield normalised
            continue
        for value in json_object.values():
            if isinstance(value, list):
                yield from (_normalize_keys(item) for item in value if isinstance(item, Mapping))


def _normalize_keys(item: Mapping[str, Any]) -> Mapping[str, Any]:
    return {normalise_words(key).replace(" ", ""): value for key, value in item.items()}


def _read_draft(draft: Mapping[str, Any], *, personas: Sequence[str], persona_required: bool) -> ScenarioDraft:
    start, plan = _read_text(draft, _STARTS), _read_text(draft, _PLANS)
    persona_name = _read_text(draft, _PERSONAS)
    if persona_required and len(personas) == 1:
        persona_name = personas[0]
    persona: str | None = persona_name.upper()
    if normalise_words(persona_name) in _NO_PERSONA_WORDS:
        persona = None
    label = f"{one_line(start, width=_SCENARIO_WIDTH)!r}" if start else "a scenario without a starting prompt"
    if persona_required and persona is None:
        return ScenarioDraft(scenario=None, problem=f"{label}: found no persona, expected one of {', '.join(personas)}")
    if persona is not None and persona not in personas:
        expected = f"one of {', '.join(personas)}{suggest_name(persona_name, personas)}"
        return ScenarioDraft(scenario=None, problem=f"{label}: found the persona {persona_name!r}, expected {expected}")
    scenario = ConversationScenario(starting_prompt=start, conversation_plan=plan, user_persona=persona)
    problem = check_scenario(scenario, UserOptions(model="")) or _check_encoding(start + plan)
    return ScenarioDraft(scenario=None, problem=f"{label}: {problem}") if problem else ScenarioDraft(scenario=scenario)


def _read_text(draft: Mapping[str, Any], names: Sequence[str]) -> str:
    value = next((draft[name] for name in names if name in draft), None)
    return value.strip() if isinstance(value, str) else ""


def _check_encoding(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        return "found half of a surrogate pair, expected whole characters"
    return ""


# Scenarios written by a model: only new and playable ones are accepted.

PURPOSE = "scenarios"
"""The purpose of requests for scenarios."""

_AT_ONCE = 20  # scenarios in one reply: more would be truncated
_MOST_SHOWN = 100  # known scenarios in a prompt
_REPLY_WIDTH = 160  # characters of a reply in a message

_NO_ANSWERS = frozenset({Trouble.EMPTY, Trouble.BLOCKED})


class GenerationError(Exception):
    """There are no scenarios; the message says why. `is_outage`: the command and the configuration are not at fault."""

    def __init__(self, message: str, *, is_outage: bool) -> None:
        super().__init__(message)
        self.is_outage = is_outage


@dataclass(frozen=True, kw_only=True)
class Generated:
    """The new scenarios. `notes` says which ones were left out, and why there are fewer than requested.

    `state` is the initial session state for each: the keys that the instructions of the agent name, with empty values.
    """

    scenarios: tuple[ConversationScenario, ...]
    notes: tuple[str, ...] = ()
    state: Mapping[str, Any] = field(default_factory=dict)


class ScenarioWriter:
    """Lets a model write new scenarios for one agent. `existing` are known; `progress` gets the count so far."""

    def __init__(
        self,
        request: ScenarioRequest,
        description: AgentDescription,
        existing: Sequence[ConversationScenario],
        *,
        ask: Ask,
        progress: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._scenario_request = request
        self._description = description
        self._ask = ask
        self._progress = progress
        self._known_scenarios = list(existing)
        self._keys = {_normalize_scenario(scenario) for scenario in existing}
        self._new_scenarios: list[ConversationScenario] = []
        self._notes: list[str] = []
        self._last_reply = ""
        self._is_cut_off = False

    async def write(self) -> Generated:
        """Ask until there are enough, with at most one extra request. Raises GenerationError if there are none."""
        for number in range(math.ceil(self._scenario_request.count / _AT_ONCE) + 1):
            missing = self._scenario_request.count - len(self._new_scenarios)
            if not missing:
                break
            try:
                await self._request_scenarios(min(missing, _AT_ONCE), sample=number)
            except ModelError as error:
                if not self._new_scenarios:
                    is_outage = error.trouble.is_outage or error.trouble in _NO_ANSWERS
                    message = f"the model that writes scenarios did not answer: {error.message}"
                    raise GenerationError(message, is_outage=is_outage) from error
                self._notes.append(f"the model did not write {missing} more: {error.message}")
                break
        return self._build_result()

    async def _request_scenarios(self, count: int, *, sample: int) -> None:
        # Off the loop: the first one imports the templates' library.
        prompt = await asyncio.to_thread(self._render_prompt, count)
        request = ModelRequest(
            model=self._scenario_request.model,
            messages=(Message(role="user", text=prompt),),
            reply_schema=self._make_schema(),
            sample=sample,
            purpose=PURPOSE,
        )
        self._collect(await ask_for_readable(self._ask, request, lambda reply: any(self._read_drafts(reply.text))))
        self._progress(len(self._new_scenarios))

    def _read_drafts(self, reply: str) -> Iterable[ScenarioDraft]:
        return read_drafts(reply, personas=self._personas, persona_required=bool(self._scenario_request.personas))

    def _collect(self, reply: ModelReply) -> None:
        self._last_reply, self._is_cut_off = reply.text, reply.is_truncated
        if reply.scripted:
            self._notes.append(f"no API key for {self._scenario_request.model}; using scripted replies")
        surplus = 0
        for draft in self._read_drafts(reply.text):
            scenario = draft.scenario
            if scenario is None:
                self._notes.append(f"left out {draft.problem}")
            elif _normalize_scenario(scenario) in self._keys:
                self._notes.append(
                    f"left out {one_line(scenario.starting_prompt, width=60)!r}: duplicate of another scenario"
                )
            elif len(self._new_scenarios) == self._scenario_request.count:
                surplus += 1
            else:
                self._keys.add(_normalize_scenario(scenario))
                self._known_scenarios.append(scenario)
                self._new_scenarios.append(scenario)
        if surplus:
            self._notes.append(f"left out {surplus} beyond the {self._scenario_request.count} requested")

    def _build_result(self) -> Generated:
        request = self._scenario_request
        cut_off = " (cut off: it was too long)" if self._is_cut_off else ""
        if not self._new_scenarios:
            reason = (
                f": {'; '.join(dict.fromkeys(self._notes))}"
                if self._notes
                else f", but: {one_line(self._last_reply, width=_REPLY_WIDTH)}"
            )
            raise GenerationError(f"{request.model} wrote no new scenario{reason}{cut_off}", is_outage=True)
        notes = list(dict.fromkeys(self._notes))
        if len(self._new_scenarios) < request.count:
            notes.append(
                f"{request.model} wrote {pluralise(len(self._new_scenarios), 'scenario')}, not {request.count}{cut_off}"
            )
        notes += [f"the model got an incomplete description of the agent: {gap}" for gap in self._description.unknown]
        return Generated(scenarios=tuple(self._new_scenarios), notes=tuple(notes))

    @property
    def _personas(self) -> Sequence[str]:
        return self._scenario_request.personas or tuple(PERSONAS)

    def _render_prompt(self, count: int) -> str:
        personas = [PERSONAS[name] for name in self._personas]
        return PROMPTS.render(
            "scenarios",
            count=count,
            personas=[{"id": persona.id, "description": persona.description} for persona in personas],
            persona_required=bool(self._scenario_request.personas),
            known=[_json(_describe_scenario(scenario)) for scenario in self._known_scenarios[-_MOST_SHOWN:]],
            instruction=self._scenario_request.instruction,
            context=self._scenario_request.context,
            lists_functions=any(part.type == "function" for part in self._description.agents),
            agents=[_json(part.model_dump(exclude_defaults=True)) for part in self._description.agents],
        )

    def _make_schema(self) -> dict[str, Any]:
        names = [*self._personas, *([] if self._scenario_request.personas else [NO_PERSONA])]
        texts = ("starting_prompt", "conversation_plan")
        properties = {name: {"type": "string"} for name in texts}
        persona = {"user_persona": {"type": "string", "enum": names}}
        item = {"type": "object", "properties": {**properties, **persona}, "required": [*texts, "user_persona"]}
        scenarios = {"scenarios": {"type": "array", "items": item}}
        return {"type": "object", "properties": scenarios, "required": ["scenarios"]}


def _describe_scenario(scenario: ConversationScenario) -> Mapping[str, str]:
    return {"starting_prompt": scenario.starting_prompt, "conversation_plan": scenario.conversation_plan}


def _normalize_scenario(scenario: ConversationScenario) -> tuple[str, str]:
    """Return a key that ignores case and white space."""
    return (
        " ".join(scenario.starting_prompt.casefold().split()),
        " ".join(scenario.conversation_plan.casefold().split()),
    )


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
