"""Judging a case: each criterion on its own, so that one that cannot judge costs neither the case nor the others."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Protocol

from workbench.agents.host import CustomScoreAnswer, CustomScoreRequest
from workbench.metrics.custom import judge_custom
from workbench.metrics.definition import CaseJudge, Judge, TextJudge, TextQuestion, TurnJudge
from workbench.metrics.outcome import result_of_case, result_of_error, result_of_turns
from workbench.metrics.registry import PreparedCriterion, prepare
from workbench.metrics.subject import CaseView, JudgedCase, Turn
from workbench.metrics.text import TextScorer
from workbench.metrics.text_helper.tasks import TextTask
from workbench.model.criteria import EvalConfig
from workbench.model.results import MetricResult, Score

__all__ = ["JudgedCase", "MetricServices", "judge_case"]

_NOT_FINISHED = Score.undefined("the turn was not finished")
_SIMULATED = Score.undefined("a conversation with a simulated user has no expected turns")
_UNEXPECTED = Score.undefined("no turn was expected here")


class MetricServices(Protocol):
    """What metrics may call on. The engine has one for each target."""

    @property
    def text(self) -> TextScorer:
        """The text helper of the run."""

    async def custom(self, request: CustomScoreRequest) -> CustomScoreAnswer:
        """Call a function of the user in the target's worker. Raises AgentError."""


async def judge_case(subject: JudgedCase, config: EvalConfig, services: MetricServices) -> tuple[MetricResult, ...]:
    """Judge a case by the criteria of a config, in their order, followed by the measures that are always reported.

    Turns that were finished are judged even where a later one was not. Never raises for a metric that fails: its result
    is an ERROR with the reason.
    """
    view = CaseView(subject)
    results: list[list[MetricResult]] = []
    waiting: list[tuple[int, PreparedCriterion]] = []
    for index, prepared in enumerate(_prepared(config)):
        if _waits_for_others(prepared):
            waiting.append((index, prepared))
            results.append([])
        else:
            results.append(_judge_here(prepared, view))
    if waiting:
        answers = await asyncio.gather(*(_judge_elsewhere(prepared, view, services) for _, prepared in waiting))
        for (index, _), answer in zip(waiting, answers, strict=True):
            results[index] = answer
    return tuple(result for group in results for result in group)


_PREPARED_AT_MOST = 64
_prepared_by_id: dict[int, tuple[EvalConfig, Sequence[PreparedCriterion]]] = {}


def _prepared(config: EvalConfig) -> Sequence[PreparedCriterion]:
    """The criteria made ready: once for each config object, which judges thousands of cases."""
    kept = _prepared_by_id.get(id(config))
    if kept is None:
        if len(_prepared_by_id) >= _PREPARED_AT_MOST:
            _prepared_by_id.clear()
        # The config is kept alive beside its criteria, so that no other object gets its id.
        kept = _prepared_by_id[id(config)] = (config, prepare(config))
    return kept[1]


def _waits_for_others(prepared: PreparedCriterion) -> bool:
    if prepared.reason is not None:
        return False
    return prepared.custom is not None or any(isinstance(judge, TextJudge) for judge in prepared.judges)


def _judge_here(prepared: PreparedCriterion, view: CaseView) -> list[MetricResult]:
    if prepared.reason is not None:
        return [_error(prepared, prepared.reason, view)]
    results = []
    for judge in prepared.judges:
        try:
            results.append(_result(judge, prepared, view))
        except Exception as error:  # a metric meets data from outside; whatever it makes of them, the others go on
            results.append(_error(prepared, _told(error), view, name=judge.name))
    return results


async def _judge_elsewhere(prepared: PreparedCriterion, view: CaseView, services: MetricServices) -> list[MetricResult]:
    try:
        if prepared.custom is not None:
            return await judge_custom(view, prepared.criterion, prepared.custom, services.custom)
        return [
            await _text_result(judge, prepared, view, services.text)
            for judge in prepared.judges
            if isinstance(judge, TextJudge)
        ]
    except Exception as error:  # as in _judge_here
        return [_error(prepared, _told(error), view)]


def _result(judge: Judge, prepared: PreparedCriterion, view: CaseView) -> MetricResult:
    assert prepared.info is not None
    lower_is_better = prepared.info.lower_is_better
    if isinstance(judge, CaseJudge):
        score, details = judge.score(view)
        return result_of_case(
            judge.name, score, criterion=prepared.criterion, lower_is_better=lower_is_better, details=details
        )
    assert isinstance(judge, TurnJudge)
    needs_reference = prepared.info.needs_reference
    return result_of_turns(
        judge.name,
        [_nothing_to_judge(turn, view, needs_reference=needs_reference) or judge.score(turn) for turn in view.turns],
        criterion=prepared.criterion,
        lower_is_better=lower_is_better,
        missing_is_zero=judge.missing_is_zero,
        details=judge.details,
    )


async def _text_result(judge: TextJudge, prepared: PreparedCriterion, view: CaseView, text: TextScorer) -> MetricResult:
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
    return result_of_turns(judge.name, scores, criterion=prepared.criterion)


def _nothing_to_judge(turn: Turn, view: CaseView, *, needs_reference: bool) -> Score | None:
    """Why a turn cannot be judged, None where it can."""
    if turn.result is None:
        return _NOT_FINISHED
    if needs_reference and turn.expected is None:
        case = view.subject.case
        return _SIMULATED if case is not None and case.conversation_scenario is not None else _UNEXPECTED
    return None


def _error(prepared: PreparedCriterion, reason: str, view: CaseView, *, name: str | None = None) -> MetricResult:
    return result_of_error(
        name or prepared.criterion.metric, reason, criterion=prepared.criterion, total=len(view.turns)
    )


def _told(error: Exception) -> str:
    return str(error) or type(error).__name__
