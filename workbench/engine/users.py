"""Who talks to the agent in a planned case, and what there is to say about it."""

from __future__ import annotations

from dataclasses import replace

from workbench.engine.environment import environment_of
from workbench.engine.plan import NoCases, Plan, PlanError, PlannedCase
from workbench.llm.provider import has_key
from workbench.llm.scripted import read_script
from workbench.model.criteria import EvalConfig
from workbench.model.keys import CaseKey
from workbench.model.results import ConversationEnd, Execution
from workbench.model.target import Target
from workbench.model.text import counted
from workbench.simulation.fixed import FixedConversation
from workbench.simulation.options import SECTION, UserOptions, read_user_options
from workbench.simulation.simulated import Ask, SimulatedUser
from workbench.simulation.user import User
from workbench.store.errors import StoreError


def options_of(config: EvalConfig) -> UserOptions:
    """How the users of scenarios are played."""
    return read_user_options(config, default_model=config.user_model)[0]


def scenarios_of(plan: Plan) -> Plan:
    """The part of a plan that simulated users play, without targets whose script of models cannot be read: the agent
    would be spoken to once, and nobody could go on.

    Raises NoCases where there is none, and PlanError where only such scripts leave nothing.
    """
    cases = tuple(case for case in plan.cases if not case.has_case or case.scenario is not None)
    if not any(case.has_case for case in cases):
        raise NoCases("nothing to simulate: none of these eval cases is a conversation scenario")
    problems = {
        target.name: why_no_script(target) for target in {each.target.name: each.target for each in cases}.values()
    }
    cases = tuple(case for case in cases if problems[case.target.name] is None)
    if not cases:
        raise PlanError(*dict.fromkeys(problem for problem in problems.values() if problem is not None))
    return replace(plan, cases=cases, whole_sets=frozenset())


def is_scripted(target: Target, model: str) -> bool:
    """Whether a script answers for a model, because there is no key for it."""
    return target.scripted_models is not None and not has_key(model, environment_of(target))


def why_no_script(target: Target) -> str | None:
    """Why the script that answers for models without a key cannot be read; None where it can, or there is none."""
    if target.scripted_models is None:
        return None
    try:
        read_script(target.scripted_models)
    except StoreError as error:
        return str(error)
    return None


def user_for(planned: PlannedCase, *, repeat: int, ask: Ask) -> User:
    """The user of a case: what its conversation says, or a model that plays its scenario."""
    case = planned.case
    assert case is not None
    if case.conversation_scenario is None:
        return FixedConversation(case.conversation or ())
    return SimulatedUser(case.conversation_scenario, options_of(planned.config), ask=ask, sample=repeat)


def why_it_stopped(case: CaseKey, execution: Execution) -> str | None:
    """What to say of a conversation that did not come to its end; None of every other."""
    simulation = execution.simulation
    if simulation is None or simulation.end is not ConversationEnd.LIMIT:
        return None
    turns = counted(simulation.limit or 0, "turn")
    return (
        f"{case}: the simulated user had not finished after {turns}, which is the limit; set "
        f"{SECTION}.max_allowed_invocations above the longest reasonable conversation"
    )
