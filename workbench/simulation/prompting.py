"""What a model is told that plays a user, and what keeps a scenario from being played."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from workbench.llm.templates import TemplateProblem, names_in, render_text
from workbench.model.evalset import ConversationScenario, UserPersona
from workbench.model.personas import DEFAULT_STOP_SIGNAL, UnknownPersona, persona_of
from workbench.simulation.options import UserOptions
from workbench.simulation.prompts import PROMPTS

_END = f"To end the conversation, reply with {DEFAULT_STOP_SIGNAL} and nothing else."


def player_of(scenario: ConversationScenario) -> UserPersona | None:
    """The persona of a scenario with `{{ stop_signal }}` filled in wherever its author has written that.

    Raises UnknownPersona, and TemplateProblem.
    """
    persona = persona_of(scenario)
    if persona is None:
        return None
    data = {"stop_signal": DEFAULT_STOP_SIGNAL}

    def fill(text: str, behavior: str) -> str:
        try:
            return render_text(text, data)
        except TemplateProblem as error:
            raise TemplateProblem(f"the behaviour {behavior!r} cannot be filled in: {error}") from error

    behaviors = [
        behavior.model_copy(
            update={
                "name": fill(behavior.name, behavior.name),
                "description": fill(behavior.description, behavior.name),
                "behavior_instructions": [fill(text, behavior.name) for text in behavior.behavior_instructions],
                "violation_rubrics": [fill(text, behavior.name) for text in behavior.violation_rubrics],
            }
        )
        for behavior in persona.behaviors
    ]
    return persona.model_copy(update={"behaviors": behaviors})


def prompt_of(plan: str, history: str, persona: UserPersona | None, options: UserOptions) -> str:
    """What the model is told, the signal that ends a conversation always in it. Raises TemplateProblem.

    `persona` is one that `player_of` gave.
    """
    if options.instructions is None:
        data = {"stop_signal": DEFAULT_STOP_SIGNAL, "conversation_plan": plan, "conversation_history": history}
        return PROMPTS.render("user", **data, persona=persona)
    prompt = _by_instructions(options.instructions, plan, history, persona)
    # Looked for where no message can have brought it in.
    if DEFAULT_STOP_SIGNAL in _by_instructions(options.instructions, "", "", persona):
        return prompt
    return f"{prompt}\n\n{_END}"


def check_scenario(scenario: ConversationScenario, options: UserOptions) -> str | None:
    """What keeps a scenario from being played, None where nothing does: found before anything has cost anything."""
    if not scenario.starting_prompt.strip():
        return "starting_prompt: found no text, expected what the user says first"
    if not scenario.conversation_plan.strip():
        return "conversation_plan: found no text, expected what the user wants and how the conversation goes on"
    try:
        persona = player_of(scenario)
    except (UnknownPersona, TemplateProblem) as error:
        return f"user_persona: {error}"
    if options.instructions is None:
        return None
    place = "custom_instructions of user_simulator_config"
    try:
        if persona is not None and "persona" not in names_in(options.instructions):
            return f"{place}: found no {{{{ persona }}}}, expected it because the scenario has a persona"
        prompt_of("a plan", "user: hello", persona, options)
    except TemplateProblem as error:
        alone = "" if persona is not None else " (the scenario has no persona)"
        return f"{place}: they cannot be filled in{alone}: {error}"
    return None


def _by_instructions(instructions: str, plan: str, history: str, persona: UserPersona | None) -> str:
    data: dict[str, Any] = {
        "stop_signal": DEFAULT_STOP_SIGNAL,
        "conversation_plan": plan,
        "conversation_history": history,
    }
    return render_text(instructions, data if persona is None else {**data, "persona": _shown(persona)})


def _shown(persona: UserPersona) -> Mapping[str, Any]:
    """A persona as custom instructions see it: plain values, and the two texts that ADK's own personas give."""
    return {
        "id": persona.id,
        "description": persona.description,
        "behaviors": [
            {
                **behavior.model_dump(include={"name", "description", "behavior_instructions", "violation_rubrics"}),
                "get_behavior_instructions_str": _listed(behavior.behavior_instructions),
                "get_violation_rubrics_str": _listed(behavior.violation_rubrics),
            }
            for behavior in persona.behaviors
        ],
    }


def _listed(texts: Sequence[str]) -> Callable[[], str]:
    return lambda: "\n".join(f"  * {text}" for text in texts)
