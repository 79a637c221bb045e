"""Asking a judge model: samples in parallel, a verdict by the majority of those that can be read, all of it kept."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence

from workbench.llm.requests import Message, ModelReply, ModelRequest
from workbench.llm.trouble import ModelError
from workbench.metrics.definition import ModelJudge, ModelQuestion, Opinion
from workbench.metrics.outcome import Rule, result_of_judgements
from workbench.metrics.subject import CaseView, Turn
from workbench.model.results import InvocationScore, Judgement, JudgeSample, MetricResult, RubricScore, Score

Ask = Callable[[ModelRequest], Awaitable[ModelReply]]
_NOT_LAST = Score.undefined("the conversation is judged as a whole, on its last turn")


async def judge_by_model(
    judge: ModelJudge,
    rule: Rule,
    view: CaseView,
    *,
    ask: Ask,
    default_model: str,
    skip: Callable[[Turn], Score | None],
) -> MetricResult:
    """The result of a judge on a case; `skip` says why a turn cannot be judged. What fails is in the result."""
    lanes = asyncio.Semaphore(judge.options.parallel or len(view.turns) * judge.options.samples or 1)

    async def ask_in_lane(request: ModelRequest) -> ModelReply:
        async with lanes:
            return await ask(request)

    last = next((turn for turn in reversed(view.turns) if turn.result is not None), None)

    async def judge_turn(turn: Turn) -> InvocationScore:
        nothing = skip(turn) or (_NOT_LAST if judge.whole and turn is not last else None)
        # Off the loop: the first one imports the templates' library, and a long conversation takes its time.
        question = await asyncio.to_thread(judge.ask, turn, view) if nothing is None else nothing
        if isinstance(question, Score):
            return InvocationScore(score=None, reason=question.reason, hint=question.hint)
        return await _judged(judge, question, ask=ask_in_lane, model=judge.options.model or default_model)

    scores = await asyncio.gather(*map(judge_turn, view.turns))
    return result_of_judgements(rule, tuple(scores))


async def _judged(judge: ModelJudge, question: ModelQuestion, *, ask: Ask, model: str) -> InvocationScore:
    requests = [
        ModelRequest(
            model=model,
            messages=(Message(role="user", text=question.prompt),),
            config=dict(judge.options.config),
            reply_schema=dict(question.reply_schema),
            sample=number,
            purpose=judge.name,
        )
        for number in range(judge.options.samples)
    ]
    answers = await asyncio.gather(*(_sample(request, question, ask) for request in requests))
    samples = tuple(sample for sample, _ in answers)
    opinions = [opinion for _, opinion in answers]
    rubrics = tuple(_rubric(rubric_id, text, opinions) for rubric_id, text in question.rubrics.items())
    judgement = Judgement(model=model, prompt=question.prompt, samples=samples, rubrics=rubrics)
    unsaid = [rubric.rubric_id for rubric in rubrics if rubric.score is None]
    if unsaid and any(sample.problem is None for sample in samples):  # a score without them would be about less
        silence = f"no sample of the judge says anything about {', '.join(map(repr, unsaid))}"
        return InvocationScore(score=None, reason=silence, judgement=judgement)
    score = _mean([rubric.score for rubric in rubrics]) if question.rubrics else majority([o.score for o in opinions])
    reason = None if score is not None else _why_none(samples)
    return InvocationScore(score=score, reason=reason, judgement=judgement)


async def _sample(request: ModelRequest, question: ModelQuestion, ask: Ask) -> tuple[JudgeSample, Opinion]:
    try:
        reply = await ask(request)
    except ModelError as error:  # it costs this sample only
        return JudgeSample(problem=error.message, outage=error.trouble.is_outage), Opinion(problem=error.message)
    opinion = question.read(reply.text)
    problem = opinion.problem
    if problem is not None and reply.is_cut_off:
        problem = f"{problem} (the reply was cut off: raise max_output_tokens)"
    sample = JudgeSample(
        score=opinion.score,
        rationale=opinion.rationale,
        reply=reply.text,
        problem=problem,
        cached=reply.cached,
        seconds=reply.seconds,
        usage=reply.usage,
    )
    return sample, opinion


def majority(scores: Sequence[float | None]) -> float | None:
    """1 where more scores are 1 than 0, else 0, a tie included; None where there are none."""
    given = [score for score in scores if score is not None]
    return None if not given else 1.0 if sum(given) * 2 > len(given) else 0.0


def _rubric(rubric_id: str, text: str, opinions: Sequence[Opinion]) -> RubricScore:
    said = [_about(opinion.rubrics, rubric_id) for opinion in opinions]
    score = majority([each for each, _ in said])
    return RubricScore(
        rubric_id=rubric_id,
        text=text,
        score=score,
        rationale=next((rationale for each, rationale in said if each is not None and each == score), ""),
        yes=sum(each == 1.0 for each, _ in said),
        no=sum(each == 0.0 for each, _ in said),
    )


def _about(rubrics: Mapping[str, tuple[float | None, str]], rubric_id: str) -> tuple[float | None, str]:
    return rubrics.get(rubric_id, (None, ""))


def _mean(scores: Sequence[float | None]) -> float | None:
    given = [score for score in scores if score is not None]
    return sum(given) / len(given) if given else None


def _why_none(samples: Sequence[JudgeSample]) -> str:
    problems = list(dict.fromkeys(sample.problem for sample in samples if sample.problem))
    if len(problems) == 1:
        return problems[0]
    return f"the samples of the judge failed in {len(problems)} ways: {'; '.join(problems[:2])}"
