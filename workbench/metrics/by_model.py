"""Asking a judge model: what has to be settled first, then all samples in parallel, and all of it is kept."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence

from workbench.llm.requests import Ask, Message, ModelReply, ModelRequest, ask_for_readable
from workbench.llm.trouble import ModelError, Trouble
from workbench.metrics.definition import (
    JudgeOptions,
    ModelJudge,
    ModelQuestion,
    Opinion,
    PreparingQuestion,
    UnreadableReply,
)
from workbench.metrics.outcome import Rule, result_of_judgements
from workbench.metrics.subject import CaseView, Turn
from workbench.model.results import InvocationScore, Judgement, JudgeSample, MetricResult, Preparation, Score

_NOT_LAST = Score.undefined("the conversation is judged as a whole, on its last turn")
_MAY_BE_CHANCE = frozenset({Trouble.BLOCKED, Trouble.EMPTY})
"""What may go well when the same is asked once more; outages have been tried again already, or took their time."""
_OF_END = "this is about how the conversation ended, which is judged on its last turn"


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
    """The result of a judge on a case; `skip` says why a turn cannot be judged. What fails is in the result.

    `quorum` is the share of the samples that must be readable for a turn to have a score.
    """
    lanes = asyncio.Semaphore(judge.options.parallel or (len(view.turns) + 1) * judge.options.samples)

    async def ask_in_lane(request: ModelRequest) -> ModelReply:
        async with lanes:
            return await ask(request)

    model = judge.options.model or default_model
    asking = _Asking(judge.name, judge.options, model=model, quorum=quorum, ask=ask_in_lane)
    last = max((index for index, turn in enumerate(view.turns) if turn.result is not None), default=None)

    async def judge_turn(index: int, turn: Turn) -> InvocationScore:
        nothing = skip(turn) or (_NOT_LAST if judge.whole and index != last else None)
        if nothing is not None:
            return _without_model(nothing)
        # Off the loop: the first one imports the templates' library, and a long conversation takes its time.
        return await asking.judged(await asyncio.to_thread(judge.ask, turn, view))

    async def judge_end() -> InvocationScore | None:
        if judge.ask_end is None or last is None:
            return None
        return await asking.judged(await asyncio.to_thread(judge.ask_end, view))

    turns = asyncio.gather(*(judge_turn(index, turn) for index, turn in enumerate(view.turns)))
    scores, end = await asyncio.gather(turns, judge_end())
    if end is not None and last is not None and _weighs(end):
        scores[last] = end.model_copy(update={"hint": _OF_END})
    return result_of_judgements(rule, tuple(scores))


def _weighs(end: InvocationScore) -> bool:
    """Whether how a conversation ended costs something: it was judged, and is not as it should be."""
    return end.judgement is not None and end.score != end.judgement.best


def _without_model(score: Score) -> InvocationScore:
    return InvocationScore(score=score.value, reason=score.reason, hint=score.hint)


class _Asking:
    """Puts the questions of one judge to its model, all samples at once."""

    def __init__(self, name: str, options: JudgeOptions, *, model: str, quorum: float, ask: Ask) -> None:
        self._name = name
        self._options = options
        self._model = model
        self._needed = math.ceil(round(quorum * options.samples, 9))
        self._ask = ask

    async def judged(self, question: ModelQuestion | PreparingQuestion | Score) -> InvocationScore:
        """What the model says to a question; what takes no model is said already."""
        if isinstance(question, Score):
            return _without_model(question)
        if isinstance(question, ModelQuestion):
            return await self._concluded(question)
        preparation, prepared = await self._prepared(question)
        if prepared is not None:
            return await self._concluded(prepared, preparation)
        judgement = Judgement(model=self._model, prompt="", preparation=preparation)
        return InvocationScore(score=None, reason=_why_none(preparation.tries), judgement=judgement)

    async def _prepared(self, question: PreparingQuestion) -> tuple[Preparation, ModelQuestion | None]:
        """The question that samples are asked; None where no try led to one."""
        tries: list[JudgeSample] = []
        for number in range(self._options.samples):
            request = self._request(question, number, f"{self._name}:preparation")
            try:
                reply = await ask_for_readable(self._ask, request, lambda text: _leads_on(question, text))
            except ModelError as error:
                tries.append(_failed(error))
                if error.trouble in _MAY_BE_CHANCE:
                    continue
                break
            try:
                prepared = await asyncio.to_thread(question.read, reply.text)
            except UnreadableReply as error:
                tries.append(_told(reply, problem=str(error)))
                continue
            tries.append(_told(reply))
            return Preparation(prompt=question.prompt, tries=tuple(tries)), prepared
        return Preparation(prompt=question.prompt, tries=tuple(tries)), None

    async def _concluded(self, question: ModelQuestion, preparation: Preparation | None = None) -> InvocationScore:
        asked = [question.flipped or question if number % 2 else question for number in range(self._options.samples)]
        answers = await asyncio.gather(
            *(_sample(self._request(each, number, self._name), each, self._ask) for number, each in enumerate(asked))
        )
        samples = tuple(
            sample if each is question else sample.model_copy(update={"prompt": each.prompt})
            for each, (sample, _) in zip(asked, answers, strict=True)
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
        unasked = next((sample.problem for sample in samples if sample.unasked), None)
        if unasked is not None:  # the others may be few, by chance: no verdict
            return InvocationScore(score=None, reason=unasked, judgement=judgement)
        if conclusion.score is None:
            reason = conclusion.reason or _why_none(samples)
            return InvocationScore(score=None, reason=reason, judgement=judgement)
        if judgement.samples_read < self._needed:  # what is left may say anything, by chance
            reason = _why_too_few(judgement, needed=self._needed)
            return InvocationScore(score=None, reason=reason, judgement=judgement)
        return InvocationScore(score=conclusion.score, judgement=judgement)

    def _request(self, question: ModelQuestion | PreparingQuestion, sample: int, purpose: str) -> ModelRequest:
        return ModelRequest(
            model=self._model,
            messages=(Message(role="user", text=question.prompt),),
            system=question.system if isinstance(question, ModelQuestion) else None,
            config=dict(self._options.config),
            reply_schema=dict(question.reply_schema),
            sample=sample,
            purpose=purpose,
        )


async def _sample(request: ModelRequest, question: ModelQuestion, ask: Ask) -> tuple[JudgeSample, Opinion]:
    try:
        reply = await ask_for_readable(ask, request, lambda text: question.read(text).problem is None)
    except ModelError as error:  # it costs this sample only
        return _failed(error), Opinion(problem=error.message)
    opinion = question.read(reply.text)
    sample = _told(reply, problem=opinion.problem)
    told = {"score": opinion.score, "label": opinion.label, "rationale": opinion.rationale}
    return sample.model_copy(update=told), opinion


def _leads_on(question: PreparingQuestion, reply: str) -> bool:
    try:
        question.read(reply)
    except UnreadableReply:
        return False
    return True


def _failed(error: ModelError) -> JudgeSample:
    return JudgeSample(problem=error.message, outage=True, unasked=error.trouble.is_unasked, usage=error.usage)


def _told(reply: ModelReply, *, problem: str | None = None) -> JudgeSample:
    if problem is not None and reply.is_cut_off:
        problem = f"{problem} (the reply was cut off: raise max_output_tokens)"
    if problem is not None and reply.cached:
        problem = f"{problem}; the reply is from the cache, --no-cache asks again"
    return JudgeSample(
        reply=reply.text,
        problem=problem,
        cached=reply.cached,
        scripted=reply.scripted,
        seconds=reply.seconds,
        usage=reply.usage,
    )


def _why_too_few(judgement: Judgement, *, needed: int) -> str:
    count = f"not judged: {judgement.samples_read} of {len(judgement.samples)} samples could be read, needs {needed}"
    problems = any(sample.problem for sample in judgement.samples)
    return f"{count}: {_why_none(judgement.samples)}" if problems else count


def _why_none(samples: Sequence[JudgeSample]) -> str:
    problems = list(dict.fromkeys(sample.problem for sample in samples if sample.problem))
    if len(problems) == 1:
        return problems[0]
    return f"the samples of the judge failed in {len(problems)} ways: {'; '.join(problems[:2])}"
