"""`judge_case`: score a case by its criteria with metrics, judge models and custom functions."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Protocol

from workbench.agents.agent_host import AgentError, CustomScoreAnswer, CustomScoreRequest
from workbench.llm.model_types import Ask, Message, ModelError, ModelReply, ModelRequest, Trouble, ask_for_readable
from workbench.metrics.case_view import CaseView, JudgedCase, Turn
from workbench.metrics.judges.reply_parser import describe_unreadable, is_whole_json
from workbench.metrics.metric_types import (
    CaseJudge,
    Judge,
    JudgeOptions,
    MetricInfo,
    ModelJudge,
    ModelQuestion,
    Opinion,
    PreparingQuestion,
    Rule,
    TextJudge,
    TextQuestion,
    TurnJudge,
    UnreadableReply,
    build_case_result,
    build_error_result,
    build_judged_result,
    build_turns_result,
    build_win_rates,
    is_number,
    join_texts,
)
from workbench.metrics.registry import PreparedCriteria, PreparedCriterion
from workbench.metrics.text_process import TextTask
from workbench.metrics.text_worker import TextScorer
from workbench.model.criteria import Criterion, CustomMetricFunction, EvalConfig
from workbench.model.identity import Dependencies
from workbench.model.results import (
    FailureKind,
    InvocationScore,
    Judgement,
    JudgeSample,
    MetricResult,
    MetricStatus,
    Preparation,
    Score,
    has_judgements,
)
from workbench.model.text import redact_data

# Custom metrics: functions of the user, called in the worker of the target.

CallCustom = Callable[[CustomScoreRequest], Awaitable[CustomScoreAnswer]]

_VERDICTS = {
    "passed": MetricStatus.PASSED,
    "failed": MetricStatus.FAILED,
    "not_evaluated": MetricStatus.UNDEFINED,
}


async def judge_custom(
    view: CaseView, criterion: Criterion, metric: CustomMetricFunction, call: CallCustom
) -> list[MetricResult]:
    """Run a custom metric on the finished turns. An exception of the function makes the result an ERROR."""
    rule = Rule(name=criterion.metric, threshold=criterion.threshold)
    request = _make_request(view, criterion, metric)
    if not request.actual:
        return [build_case_result(rule, Score.undefined("no turn was finished"))]
    try:
        answer = await call(request)
    except AgentError as error:
        details = {"traceback": error.failure.traceback} if error.failure.traceback else {}
        errored = build_error_result(rule, error.failure.message, total=len(view.turns), details=details)
        dependencies = error.dependencies or Dependencies()
        is_outage = error.failure.kind in (FailureKind.INFRASTRUCTURE, FailureKind.TIMEOUT)
        return [errored.model_copy(update={"dependencies": dependencies.close(), "outage": is_outage})]
    return [_build_main_result(answer, rule), *_build_further_results(answer, rule)]


def _make_request(view: CaseView, criterion: Criterion, metric: CustomMetricFunction) -> CustomScoreRequest:
    subject = view.subject
    finished = [turn.result for turn in view.turns if turn.result is not None]
    actual = [result.invocation for result in finished]
    return CustomScoreRequest(
        metric=criterion.metric,
        function=metric.path,
        actual=actual,
        unknown=frozenset(index for index, result in enumerate(finished) if result.calls_unknown is not None),
        seconds=() if subject.recorded else [result.duration_seconds for result in finished],
        failure=None if subject.recorded else int(subject.execution.failure is not None),
        # Turns are paired by position. The function gets no expectations for unfinished turns.
        expected=subject.expected[: len(actual)] if subject.expected else None,
        scenario=None if subject.case is None else subject.case.conversation_scenario,
        threshold=criterion.threshold,
        options=criterion.options,
        columns=subject.columns,
    )


def _build_main_result(answer: CustomScoreAnswer, rule: Rule) -> MetricResult:
    turns = answer.per_invocation
    score = float(answer.score) if is_number(answer.score) else None
    status = rule.decide_status(score)
    if answer.verdict is not None and rule.threshold is not None:
        status = _VERDICTS[answer.verdict]
    reason = answer.reason
    if score is None or status is MetricStatus.UNDEFINED:
        reason = reason or _explain_undefined(answer, score)
    return MetricResult.construct_unvalidated(
        name=rule.name,
        score=score,
        threshold=rule.threshold,
        status=status,
        reason=reason,
        hint=_describe_contradiction(status, rule.decide_status(score)),
        scored=sum(turn.score is not None for turn in turns) if turns else int(score is not None),
        total=len(turns) or 1,
        per_invocation=turns,
        details=redact_data({name: value for name, value in answer.scores.items() if not _is_score(value)}),
        dependencies=answer.dependencies,
    )


def _explain_undefined(answer: CustomScoreAnswer, score: float | None) -> str:
    if answer.score is None:
        return "the function gave no score"
    if score is not None and answer.verdict == "not_evaluated":  # the default of ADK's EvaluationResult
        return f"the function returned the score {score:g}, but overall_eval_status is NOT_EVALUATED: set it"
    return f"the score is {answer.score}"


def _describe_contradiction(verdict: MetricStatus, by_threshold: MetricStatus) -> str | None:
    """Return a hint if the verdict of the function contradicts its score and the threshold."""
    if {verdict, by_threshold} != {MetricStatus.PASSED, MetricStatus.FAILED}:
        return None
    place = "below" if by_threshold is MetricStatus.FAILED else "not below"
    return f"the function says {verdict.value}, although its score is {place} the threshold"


def _build_further_results(answer: CustomScoreAnswer, rule: Rule) -> list[MetricResult]:
    """Build an informational result for each further number. Other values are details of the main result."""
    return [
        build_case_result(Rule(name=f"{rule.name}/{name}"), Score(float(value)))
        for name, value in answer.scores.items()
        if _is_score(value)
    ]


def _is_score(value: Any) -> bool:
    return isinstance(value, bool) or is_number(value)


# Judge models: an optional preparing question, then all samples in parallel.

_NOT_LAST = Score.undefined("the conversation is judged as a whole, on its last turn")
_MAY_BE_CHANCE = frozenset({Trouble.BLOCKED, Trouble.EMPTY})
"""Troubles after which another request may succeed. Outages were retried already."""
_END_HINT = "the end of the conversation is judged on its last turn"


async def judge_by_model(
    judge: ModelJudge,
    rule: Rule,
    view: CaseView,
    *,
    ask: Ask,
    default_model: str,
    quorum: float,
    skip: Callable[[Turn], Score | None],
) -> MetricResult:
    """Judge a case by a model. Failures are part of the result.

    `skip` returns the score of a turn that cannot be judged. A turn has a score only if the share `quorum` of its
    samples is readable.
    """
    lanes = asyncio.Semaphore(judge.options.parallel or (len(view.turns) + 1) * judge.options.samples)

    async def ask_in_lane(request: ModelRequest) -> ModelReply:
        async with lanes:
            return await ask(request)

    model = judge.options.model or default_model
    questioner = _Questioner(judge.name, judge.options, model=model, quorum=quorum, ask=ask_in_lane)
    last_index = max((index for index, turn in enumerate(view.turns) if turn.result is not None), default=None)

    async def judge_turn(index: int, turn: Turn) -> InvocationScore:
        undefined = skip(turn) or (_NOT_LAST if judge.judges_conversation and index != last_index else None)
        if undefined is not None:
            return _make_score(undefined)
        # In a thread: the first call imports the template library, and a long conversation takes long to render.
        return await questioner.judge(await asyncio.to_thread(judge.ask, turn, view))

    async def judge_end() -> InvocationScore | None:
        if judge.ask_end is None or last_index is None:
            return None
        return await questioner.judge(await asyncio.to_thread(judge.ask_end, view))

    turns = asyncio.gather(*(judge_turn(index, turn) for index, turn in enumerate(view.turns)))
    scores, end = await asyncio.gather(turns, judge_end())
    if end is not None and last_index is not None and end.judgement is not None and end.score != end.judgement.best:
        scores[last_index] = end.model_copy(update={"hint": _END_HINT})
    return build_judged_result(rule, tuple(scores))


def _make_score(score: Score) -> InvocationScore:
    return InvocationScore(score=score.value, reason=score.reason, hint=score.hint)


class _Questioner:
    """Asks the model of one judge, all samples at once."""

    def __init__(self, name: str, options: JudgeOptions, *, model: str, quorum: float, ask: Ask) -> None:
        self._name = name
        self._options = options
        self._model = model
        self._samples_needed = math.ceil(round(quorum * options.samples, 9))
        self._ask = ask

    async def judge(self, question: ModelQuestion | PreparingQuestion | Score) -> InvocationScore:
        """Ask the model. A Score needs no model."""
        if isinstance(question, Score):
            return _make_score(question)
        if isinstance(question, ModelQuestion):
            return await self._conclude(question)
        preparation, prepared = await self._prepare(question)
        if prepared is not None:
            return await self._conclude(prepared, preparation)
        judgement = Judgement(model=self._model, prompt="", preparation=preparation)
        return InvocationScore(score=None, reason=_explain_no_score(preparation.tries), judgement=judgement)

    async def _prepare(self, question: PreparingQuestion) -> tuple[Preparation, ModelQuestion | None]:
        """Ask the preparing question. The second value is the question of the samples; None if no reply is readable."""
        tries: list[JudgeSample] = []
        for number in range(self._options.samples):
            request = self._make_request(question, number, f"{self._name}:preparation")
            try:
                reply = await ask_for_readable(self._ask, request, lambda reply: _is_readable(question, reply))
            except ModelError as error:
                tries.append(_make_failed_sample(error))
                if error.trouble in _MAY_BE_CHANCE:
                    continue
                break
            try:
                prepared = await asyncio.to_thread(_read_preparation, question, reply)
            except UnreadableReply as error:
                tries.append(_make_sample(reply, problem=str(error)))
                continue
            tries.append(_make_sample(reply))
            return Preparation(prompt=question.prompt, tries=tuple(tries)), prepared
        return Preparation(prompt=question.prompt, tries=tuple(tries)), None

    async def _conclude(self, question: ModelQuestion, preparation: Preparation | None = None) -> InvocationScore:
        variants = [question.flipped or question if number % 2 else question for number in range(self._options.samples)]
        answers = await asyncio.gather(
            *(
                _ask_sample(self._make_request(variant, number, self._name), variant, self._ask)
                for number, variant in enumerate(variants)
            )
        )
        samples = tuple(
            sample if variant is question else sample.model_copy(update={"prompt": variant.prompt})
            for variant, (sample, _) in zip(variants, answers, strict=True)
        )
        conclusion = question.conclude([opinion for _, opinion in answers])
        judgement = Judgement(
            model=self._model,
            prompt=question.prompt,
            system=question.system,
            samples=samples,
            rubrics=conclusion.rubrics,
            sentences=conclusion.sentences,
            preparation=preparation,
            lowest=question.lowest,
            best=question.best,
            spread=conclusion.spread,
        )
        unasked_reason = next((sample.problem for sample in samples if sample.unasked), None)
        if unasked_reason is not None:  # too few samples may be left: no verdict
            return InvocationScore(score=None, reason=unasked_reason, judgement=judgement)
        if conclusion.score is None:
            reason = conclusion.reason or _explain_no_score(samples)
            return InvocationScore(score=None, reason=reason, judgement=judgement)
        if judgement.samples_read < self._samples_needed:  # the result of so few samples would be chance
            reason = _explain_too_few(judgement, needed=self._samples_needed)
            return InvocationScore(score=None, reason=reason, judgement=judgement)
        return InvocationScore(score=conclusion.score, judgement=judgement)

    def _make_request(self, question: ModelQuestion | PreparingQuestion, sample: int, purpose: str) -> ModelRequest:
        return ModelRequest(
            model=self._model,
            messages=(Message(role="user", text=question.prompt),),
            system=question.system if isinstance(question, ModelQuestion) else None,
            config=dict(self._options.config),
            reply_schema=dict(question.reply_schema),
            sample=sample,
            purpose=purpose,
        )


async def _ask_sample(request: ModelRequest, question: ModelQuestion, ask: Ask) -> tuple[JudgeSample, Opinion]:
    try:
        reply = await ask_for_readable(ask, request, lambda reply: question.read(reply.text).problem is None)
    except ModelError as error:  # only this sample fails
        return _make_failed_sample(error), Opinion(problem=error.message)
    opinion = question.read(reply.text)
    sample = _make_sample(reply, problem=opinion.problem)
    update = {"score": opinion.score, "label": opinion.label, "rationale": opinion.rationale}
    return sample.model_copy(update=update), opinion


def _read_preparation(question: PreparingQuestion, reply: ModelReply) -> ModelQuestion:
    """Read the question of the samples. Raises UnreadableReply, also for a list without its end."""
    prepared = question.read(reply.text)
    if reply.is_truncated and not is_whole_json(reply.text):
        raise UnreadableReply(describe_unreadable(reply.text, "the whole list"))
    return prepared


def _is_readable(question: PreparingQuestion, reply: ModelReply) -> bool:
    try:
        _read_preparation(question, reply)
    except UnreadableReply:
        return False
    return True


def _make_failed_sample(error: ModelError) -> JudgeSample:
    return JudgeSample(problem=error.message, outage=True, unasked=error.trouble.is_unasked, usage=error.usage)


def _make_sample(reply: ModelReply, *, problem: str | None = None) -> JudgeSample:
    if problem is not None and reply.is_truncated:
        problem = f"{problem} (the reply was cut off: raise max_output_tokens)"
    if problem is not None and reply.cached:
        problem = f"{problem}; the reply is from the cache or a recording: --no-cache or --record asks again"
    return JudgeSample(
        reply=reply.text,
        problem=problem,
        cached=reply.cached,
        scripted=reply.scripted,
        seconds=reply.seconds,
        usage=reply.usage,
    )


def _explain_too_few(judgement: Judgement, *, needed: int) -> str:
    count = f"not judged: {judgement.samples_read} of {len(judgement.samples)} samples could be read, needs {needed}"
    problems = any(sample.problem for sample in judgement.samples)
    return f"{count}: {_explain_no_score(judgement.samples)}" if problems else count


def _explain_no_score(samples: Sequence[JudgeSample]) -> str:
    problems = list(dict.fromkeys(sample.problem for sample in samples if sample.problem))
    if len(problems) == 1:
        return problems[0]
    return f"the samples of the judge failed in {len(problems)} ways: {'; '.join(problems[:2])}"


# All criteria of a case, independently: one that fails affects no other.

_NOT_FINISHED = Score.undefined("the turn was not finished")
_SIMULATED = Score.undefined("a conversation with a simulated user has no expected turns")
_UNEXPECTED = Score.undefined("no turn was expected here")
_NO_TEXT = Score(
    None,
    reason="the turn expects no text",
    hint="no score for turns that expect no text, because no file of criteria asks for one",
)
_NOTHING = "the case expects neither text nor a call nor a state: write or accept what is right, or choose criteria"


class MetricServices(Protocol):
    """Services that the engine provides for metrics; one object for each target."""

    @property
    def text(self) -> TextScorer:
        """The text helper of the run."""

    async def ask(self, request: ModelRequest) -> ModelReply:
        """Ask a model. Raises ModelError."""

    async def custom(self, request: CustomScoreRequest) -> CustomScoreAnswer:
        """Call a function of the user in the target's worker. Raises AgentError."""


async def judge_case(
    subject: JudgedCase, criteria: PreparedCriteria, services: MetricServices
) -> tuple[MetricResult, ...]:
    """Judge a case by criteria, in their order.

    Finished turns are judged even if a later turn was not finished. A metric that fails does not raise: its result is
    an ERROR with the reason.
    """
    view = CaseView(subject)
    groups = [[] if prepared.waits else _judge_directly(prepared, view) for prepared in criteria.criteria]
    if criteria.waits:
        waiting = {index: prepared for index, prepared in enumerate(criteria.criteria) if prepared.waits}
        answers = await asyncio.gather(
            *[_judge_async(prepared, view, services, criteria.config) for prepared in waiting.values()]
        )
        for index, answer in zip(waiting, answers, strict=True):
            groups[index] = answer
    results = [result for group in groups for result in group]
    if criteria.config.is_default and not view.expects_something:
        results = [_withdraw(result) if result.status in _DECIDED else result for result in results]
    turns = subject.execution.turns
    if turns and turns[-1].pending is not None:
        hint = f"the conversation ended while the agent waited for an answer: {turns[-1].pending}"
        results = [result if result.threshold is None else _add_hint(result, hint) for result in results]
    return _share_equal_results(results)


_DECIDED = (MetricStatus.PASSED, MetricStatus.FAILED)


def _withdraw(result: MetricResult) -> MetricResult:
    """Take back a verdict of the default criteria on a case that expects nothing: an empty trajectory that equals an
    empty one says nothing about the agent."""
    scores = tuple(InvocationScore(score=None, reason=_NOTHING) for _ in result.per_invocation)
    update = {"score": None, "status": MetricStatus.UNDEFINED, "reason": _NOTHING, "hint": None, "scored": 0}
    return result.model_copy(update={**update, "per_invocation": scores})


def _add_hint(result: MetricResult, hint: str | None) -> MetricResult:
    return result if hint is None else result.model_copy(update={"hint": join_texts([result.hint, hint])})


def _note_media(view: CaseView) -> str | None:
    """Note the images and files of the user, of which the judge model gets only the type."""
    contents = (turn.actual.user_content for turn in view.turns if turn.actual is not None)
    kinds = list(dict.fromkeys(kind for content in contents for kind in content.media))
    return f"the judge does not see what the user sent beside text: {', '.join(kinds)}" if kinds else None


_MOST_SHARED_RESULTS = 256
_shared_results: dict[tuple[int, ...], tuple[MetricResult, ...]] = {}


def _share_equal_results(results: Sequence[MetricResult]) -> tuple[MetricResult, ...]:
    """Return the same tuple for all cases with the same result objects. Thousands of cases share few results.

    Functions with `cache_by_identity` compute their result once for such a tuple.
    """
    identities = tuple(map(id, results))
    shared = _shared_results.get(identities)
    if shared is None:
        if has_judgements(results):
            return tuple(results)
        if len(_shared_results) >= _MOST_SHARED_RESULTS:
            _shared_results.clear()
        shared = _shared_results[identities] = tuple(results)
    return shared


def _judge_directly(prepared: PreparedCriterion, view: CaseView) -> list[MetricResult]:
    if prepared.reason is not None:
        return [build_error_result(prepared.rule, prepared.reason, total=len(view.turns))]
    results = []
    for judge, rule in prepared.judges:
        try:
            results.append(_judge_criterion(judge, rule, prepared, view))
        except Exception as error:  # metrics read untrusted data; one that fails must not stop the others
            results.append(build_error_result(rule, _format_error(error), total=len(view.turns)))
    return results


async def _judge_async(
    prepared: PreparedCriterion, view: CaseView, services: MetricServices, config: EvalConfig
) -> list[MetricResult]:
    try:
        if prepared.custom is not None:
            return await judge_custom(view, prepared.criterion, prepared.custom, services.custom)
        if prepared.info is not None and "judge" in prepared.info.needs:
            skip = partial(_explain_unasked, view=view, info=prepared.info)
            results: list[MetricResult] = []
            for judge, rule in prepared.judges:
                if isinstance(judge, ModelJudge):
                    result = await judge_by_model(
                        judge,
                        rule,
                        view,
                        ask=services.ask,
                        default_model=config.judge,
                        quorum=config.quorum,
                        skip=skip,
                    )
                    result = _add_hint(result, _note_media(view))
                    results += [result, *build_win_rates(result)] if judge.has_win_rates else [result]
            return results
        if any(isinstance(judge, TurnJudge) for judge, _ in prepared.judges):
            return await asyncio.to_thread(_judge_directly, prepared, view)
        return [
            await _judge_texts(judge, rule, view, services.text, skips_textless=config.is_default)
            for judge, rule in prepared.judges
            if isinstance(judge, TextJudge)
        ]
    except Exception as error:  # as in _judge_directly
        return [build_error_result(prepared.rule, _format_error(error), total=len(view.turns))]


def _judge_criterion(judge: Judge, rule: Rule, prepared: PreparedCriterion, view: CaseView) -> MetricResult:
    if isinstance(judge, CaseJudge):
        score, details = judge.score(view)
        return build_case_result(rule, score, details=details)
    assert isinstance(judge, TurnJudge)
    assert prepared.info is not None
    needs_reference = prepared.info.needs_reference
    result = _score_turns(judge, rule, view, needs_reference=needs_reference)
    if judge.check is None or result.score is None:
        return result
    return _add_hint(result, judge.check(view))


def _score_turns(judge: TurnJudge, rule: Rule, view: CaseView, *, needs_reference: bool) -> MetricResult:
    score_of, turns = judge.score, view.turns
    if view.is_finished and (view.is_expected or not needs_reference):  # the usual case, worth a fast path
        if len(turns) == 1:  # as in all rows of datasets
            return build_turns_result(rule, (score_of(turns[0]),))
        return build_turns_result(rule, tuple([score_of(turn) for turn in turns]))
    scores = [_explain_unscored(turn, view, needs_reference=needs_reference) or score_of(turn) for turn in turns]
    return build_turns_result(rule, tuple(scores))


async def _judge_texts(
    judge: TextJudge, rule: Rule, view: CaseView, text: TextScorer, *, skips_textless: bool
) -> MetricResult:
    """Compare all texts of a case in one request to the helper. `skips_textless`: turns that expect no text have no
    score, whatever the metric says."""
    questions = [
        _explain_unscored(turn, view, needs_reference=True)
        or (_NO_TEXT if skips_textless and not turn.expects_text else judge.ask(turn))
        for turn in view.turns
    ]
    tasks: list[TextTask] = [
        task for question in questions if isinstance(question, TextQuestion) for task in question.tasks
    ]
    answers = iter(await text.score(tasks) if tasks else ())
    scores = [
        question if isinstance(question, Score) else question.read([next(answers) for _ in question.tasks])
        for question in questions
    ]
    return build_turns_result(rule, tuple(scores))


def _explain_unscored(turn: Turn, view: CaseView, *, needs_reference: bool) -> Score | None:
    """Return the undefined score of a turn that cannot be judged; None if it can."""
    if turn.result is None:
        return _NOT_FINISHED
    if needs_reference and turn.expected is None:
        case = view.subject.case
        return _SIMULATED if case is not None and case.conversation_scenario is not None else _UNEXPECTED
    return None


def _explain_unasked(turn: Turn, view: CaseView, *, info: MetricInfo) -> Score | None:
    """Return the undefined score of a turn that needs no model call; None if it needs one."""
    undefined = _explain_unscored(turn, view, needs_reference=info.needs_reference)
    if undefined is not None or not info.columns or any(view.is_recorded(column, turn) for column in info.columns):
        return undefined
    return Score.undefined(f"the row has no {' and no '.join(info.columns)}")


def _format_error(error: Exception) -> str:
    return str(error) or type(error).__name__
