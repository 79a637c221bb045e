"""What `workbench doctor` says of judge models and simulated users: what they judge or play, how they are reached, and
whether they answer."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from workbench.engine.workspace import Workspace
    from workbench.model.target import Target

_PATIENCE = 60.0  # seconds for an answer to the smallest question


@dataclass
class AskedJudge:
    """A judge model as the agent of a target has it reached; `sets` are those that it judges."""

    model: str
    target: Target
    sets: list[str] = field(default_factory=list)


def judges_of(workspace: Workspace) -> list[AskedJudge]:
    """The models that criteria of the project ask; without sets whose criteria cannot be read, which others name."""
    from workbench.engine.criteria import judge_models_of, with_models
    from workbench.model.criteria import default_config
    from workbench.store.documents import load_config
    from workbench.store.errors import StoreError

    judges: dict[tuple[str, str], AskedJudge] = {}
    for entry in workspace.project.eval_sets:
        if entry.target is None:
            continue
        try:
            config = default_config() if entry.config is None else load_config(entry.config)
        except StoreError:
            continue
        target = workspace.project.targets[entry.target]
        for model in judge_models_of(with_models(config, workspace.settings)):
            judges.setdefault((model, target.name), AskedJudge(model, target)).sets.append(entry.relative)
    return list(judges.values())


def players_of(workspace: Workspace) -> list[AskedJudge]:
    """The models that play the users of conversation scenarios; without sets that cannot be read, as above."""
    from workbench.engine.criteria import with_models
    from workbench.engine.users import options_of
    from workbench.model.criteria import default_config
    from workbench.store.documents import load_config
    from workbench.store.errors import StoreError

    players: dict[tuple[str, str], AskedJudge] = {}
    for entry in workspace.project.eval_sets:
        if entry.target is None:
            continue
        try:
            document = workspace.document(entry.relative)
            readable = (document.case(each.index) for each in document.entries if each.problem is None)
            if all(case.conversation_scenario is None for case in readable):
                continue
            config = default_config() if entry.config is None else load_config(entry.config)
        except StoreError:
            continue
        target = workspace.project.targets[entry.target]
        model = options_of(with_models(config, workspace.settings)).model
        players.setdefault((model, target.name), AskedJudge(model, target)).sets.append(entry.relative)
    return list(players.values())


def missing_keys(judges: list[AskedJudge], players: list[AskedJudge]) -> Iterator[str]:
    """A problem for each model that cannot be asked, with the variable that it lacks."""
    from workbench.engine.environment import environment_of
    from workbench.engine.users import is_scripted
    from workbench.llm.access import access_to
    from workbench.model.text import counted

    for does, models in (("judges", judges), ("plays the users of", players)):
        for asked in models:
            missing = access_to(asked.model, environment_of(asked.target)).missing
            if missing is not None and not is_scripted(asked.target, asked.model):
                sets = f"{counted(len(asked.sets), 'eval set')} of {asked.target.name}"
                yield f"{asked.model}, which {does} {sets}: {missing}"


def judge_lines(judges: list[AskedJudge], workspace: Workspace, *, answers: Mapping[str, str]) -> Iterator[str]:
    """Each judge with the way to it; `answers` is what came of asking, by target and model."""
    from workbench.engine.cost import prices_of
    from workbench.engine.environment import environment_of
    from workbench.llm.access import access_to
    from workbench.llm.prices import Tokens
    from workbench.model.text import counted
    from workbench.report.spending import cost_text

    if not judges:
        yield "judges       none: no criterion asks a model"
        return
    yield "judges"
    prices = prices_of(workspace.settings.judge)
    for judge in judges:
        access = access_to(judge.model, environment_of(judge.target))
        keys = f"with {', '.join(access.keys)}" if access.keys else "without a key"
        way = keys if access.address is None else f"{keys}, at {access.address}"
        yield f"  {judge.model} for {judge.target.name}: {counted(len(judge.sets), 'eval set')}; {access.through}"
        yield f"    {way if access.missing is None else access.missing}"
        if judge.target.scripted_models is not None:
            yield f"    where it has no key, {judge.target.scripted_models.name} answers in its place"
        unknown = prices.why_unknown(judge.model)
        if unknown is None:
            sides = (prices.cost(judge.model, Tokens(*side)) for side in ((1_000_000, 0), (0, 1_000_000)))
            asked, answered = (cost_text(float(side)) for side in sides)
        yield f"    {unknown}" if unknown is not None else f"    {asked} and {answered} for a million tokens in and out"
        if (answer := answers.get(_name(judge))) is not None:
            yield f"    {answer}"


def ask_judges(judges: list[AskedJudge], workspace: Workspace) -> tuple[Mapping[str, str], list[str]]:
    """Ask each judge the smallest question: what came of it by target and model, and what went wrong."""
    return asyncio.run(_ask_judges(judges, workspace))


async def _ask_judges(judges: list[AskedJudge], workspace: Workspace) -> tuple[Mapping[str, str], list[str]]:
    from workbench.engine.environment import environment_of
    from workbench.engine.users import is_scripted
    from workbench.llm.access import access_to
    from workbench.llm.models import ModelOptions, Models
    from workbench.llm.requests import Message, ModelRequest
    from workbench.llm.trouble import ModelError

    answers: dict[str, str] = {}
    problems: list[str] = []
    timeout = min(workspace.settings.judge.timeout_seconds, _PATIENCE)
    for judge in judges:
        if is_scripted(judge.target, judge.model):  # as in runs: the model is not asked
            answers[_name(judge)] = "not asked: there is no key for it, and the script answers in its place"
            continue
        if access_to(judge.model, environment_of(judge.target)).missing is not None:  # a problem already
            continue
        models = Models(environment_of(judge.target), ModelOptions(tries=1, timeout_seconds=timeout))
        question = Message(role="user", text="Answer with one word: yes.")
        try:
            reply = await models.ask(ModelRequest(model=judge.model, messages=(question,)))
        except ModelError as error:
            answers[_name(judge)] = f"asked: {error.trouble.value}"
            problems.append(f"judge of {judge.target.name}: {error.message}")
        else:
            version = "" if reply.version in (None, judge.model) else f", by {reply.version}"
            answers[_name(judge)] = f"asked: it answered in {reply.seconds:.2f} s{version}"
        finally:
            await models.close()
    return answers, problems


def _name(judge: AskedJudge) -> str:
    return f"{judge.target.name} {judge.model}"
