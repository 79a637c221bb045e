"""Judging a case: each criterion on its own, so that one that cannot judge costs neither the case nor the others."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Protocol

from workbench.agents.host import CustomScoreAnswer, CustomScoreRequest
from workbench.llm.requests import ModelReply, ModelRequest
from workbench.metrics.by_model import judge_by_model
from workbench.metrics.custom import judge_custom
from workbench.metrics.definition import (
    CaseJudge,
    Judge,
    MetricInfo,
    ModelJudge,
    TextJudge,
    TextQuestion,
    TurnJudge,
)
from workbench.metrics.outcome import Rule, joined, result_of_case, result_of_error, result_of_turns, win_rates
from workbench.metrics.registry import PreparedCriterion, prepare
from workbench.metrics.subject import CaseView, JudgedCase, Turn
from workbench.metrics.text import TextScorer
from workbench.metrics.text_helper.tasks import TextTask
from workbench.model.by_identity import by_identity
from workbench.model.criteria import EvalConfig
from workbench.model.results import MetricResult, Score, were_asked_of_models

__all__ = ["JudgedCase", "MetricServices", "judge_case"]

_NOT_FINISHED = Score.undefined("the turn was not finished")
_SIMULATED = Score.undefined("a conversation with a simulated user has no expected turns")
_UNEXPECTED = Score.undefined("no turn was expected here")


class MetricServices(Protocol):
    """What metrics may call on. The engine has one for each target."""

    @property
    def text(self) -> TextScorer:
        """The text helper of the run."""

    async def ask(self, request: ModelRequest) -> ModelReply:
        """Ask a model. Raises ModelError."""

    async def custom(self, request: CustomScoreRequest) -> CustomScoreAnswer:
        """Call a function of the user in the target's worker. Raises AgentError."""


async def judge_case(subject: JudgedCase, config: EvalConfig, services: MetricServices) -> tuple[MetricResult, ...]:
    """Judge a case by the criteria of a config, in their order, followed by the measures that are always reported.

    Turns that were finished are judged even where a later one was not. Never raises for a metric that fails: its result
    is an ERROR with the reason.
    """
    view = CaseView(subject)
    criteria = _prepared(config)
    groups = [[] if prepared.waits else _judge_here(prepared, view) for prepared in criteria]
    waiting = [index for index, prepared in enumerate(criteria) if prepared.waits]
    if waiting:
        answers = await asyncio.gather(
            *[_judge_elsewhere(criteria[index], view, services, config) for index in waiting]
        )
        for index, answer in zip(waiting, answers, strict=True):
            groups[index] = answer
    return _one_of_alike([result for group in groups for result in group])


@by_identity(at_most=64)
def _prepared(config: EvalConfig) -> Sequence[PreparedCriterion]:
    """The criteria made ready: once for each config object, which judges thousands of cases."""
    return prepare(config)


_ALIKE_AT_MOST = 256
_alike: dict[tuple[int, ...], tuple[MetricResult, ...]] = {}


def _one_of_alike(results: Sequence[MetricResult]) -> tuple[MetricResult, ...]:
    """The results as a tuple, the same one for all cases that share their results: by the thousand those are few.

    What is worked out of such a tuple, `by_identity`, is worked out once.
    """
    which = tuple(map(id, results))
    alike = _alike.get(which)
    if alike is None:
        if were_asked_of_models(results):
            return tuple(results)
        if len(_alike) >= _ALIKE_AT_MOST:
            _alike.clear()
        alike = _alike[which] = tuple(results)
    return alike


def _judge_here(prepared: PreparedCriterion, view: CaseView) -> list[MetricResult]:
    if prepared.reason is not None:
        return [result_of_error(prepared.rule, prepared.reason, total=len(view.turns))]
    results = []
    for judge, rule in prepared.judges:
        try:
            results.append(_result(judge, rule, prepared, view))
        except Exception as error:  # a metric meets data from outside; whatever it makes of them, the others go on
            results.append(result_of_error(rule, _told(error), total=len(view.turns)))
    return results


async def _judge_elsewhere(
    prepared: PreparedCriterion, view: CaseView, services: MetricServices, config: EvalConfig
) -> list[MetricResult]:
    try:
        if prepared.custom is not None:
            return await judge_custom(view, prepared.criterion, prepared.custom, services.custom)
        if prepared.info is not None and "judge" in prepared.info.needs:
            skip = partial(_nothing_to_ask, view=view, info=prepared.info)
            results: list[MetricResult] = []
            for judge, rule in prepared.judges:
                if isinstance(judge, ModelJudge):
                    judged = await judge_by_model(
                        judge,
                        rule,
                        view,
                        ask=services.ask,
                        default_model=config.judge,
                        quorum=config.quorum,
                        skip=skip,
                    )
                    results += [judged, *win_rates(judged)] if judge.tells_wins else [judged]
            return results
        if any(isinstance(judge, TurnJudge) for judge, _ in prepared.judges):
            return await asyncio.to_thread(_judge_here, prepared, view)
        return [
            await _text_result(judge, rule, view, services.text)
            for judge, rule in prepared.judges
            if isinstance(judge, TextJudge)
        ]
    except Exception as error:  # as in _judge_here
        return [result_of_error(prepared.rule, _told(error), total=len(view.turns))]


def _result(judge: Judge, rule: Rule, prepared: PreparedCriterion, view: CaseView) -> MetricResult:
    if isinstance(judge, CaseJudge):
        score, details = judge.score(view)
        return result_of_case(rule, score, details=details)
    assert isinstance(judge, TurnJudge)
    assert prepared.info is not None
    needs_reference = prepared.info.needs_reference
    result = _result_of_turns(judge, rule, view, needs_reference=needs_reference)
    if judge.check is None or result.score is None:
        return result
    hint = judge.check(view)
    return result if hint is None else result.model_copy(update={"hint": joined([result.hint, hint])})


def _result_of_turns(judge: TurnJudge, rule: Rule, view: CaseView, *, needs_reference: bool) -> MetricResult:
    score_of, turns = judge.score, view.turns
    if view.is_finished and (view.is_expected or not needs_reference):  # nearly always, and then worth its own lines
        if len(turns) == 1:  # as in all rows of datasets
            return result_of_turns(rule, (score_of(turns[0]),))
        return result_of_turns(rule, tuple([score_of(turn) for turn in turns]))
    scores = [_nothing_to_judge(turn, view, needs_reference=needs_reference) or score_of(turn) for turn in turns]
    return result_of_turns(rule, tuple(scores))


async def _text_result(judge: TextJudge, rule: Rule, view: CaseView, text: TextScorer) -> MetricResult:
    """All comparisons of a case go to the helper at once."""
    questions = [_nothing_to_judge(turn, view, needs_reference=True) or judge.ask(turn) for turn in view.turns]
    tasks: list[TextTask] = [
        task for question in questions if isinstance(question, TextQuestion) for task in question.tasks
    ]
    answers = iter(await text.score(tasks) if tasks else ())
    scores = [
        question if isinstance(question, Score) else question.read([next(answers) for _ in question.tasks])
        for question in questions
    ]
    return result_of_turns(rule, tuple(scores))


def _nothing_to_judge(turn: Turn, view: CaseView, *, needs_reference: bool) -> Score | None:
    """Why a turn cannot be judged, None where it can."""
    if turn.result is None:
        return _NOT_FINISHED
    if needs_reference and turn.expected is None:
        case = view.subject.case
        return _SIMULATED if case is not None and case.conversation_scenario is not None else _UNEXPECTED
    return None


def _nothing_to_ask(turn: Turn, view: CaseView, *, info: MetricInfo) -> Score | None:
    """Why no model need be asked about a turn, None where one must."""
    nothing = _nothing_to_judge(turn, view, needs_reference=info.needs_reference)
    if nothing is not None or not info.columns or any(view.is_recorded(column, turn) for column in info.columns):
        return nothing
    return Score.undefined(f"the row has no {' and no '.join(info.columns)}")


def _told(error: Exception) -> str:
    return str(error) or type(error).__name__
