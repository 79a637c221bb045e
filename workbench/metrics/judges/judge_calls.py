"""Common parts of judges: the conclusion from several samples, options of judge models, and the evaluation service."""

from __future__ import annotations

import json
import statistics
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from workbench.llm.gemini import find_unknown_keys
from workbench.llm.model_types import VERTEX_EVALUATION
from workbench.metrics.case_view import CaseView, Turn
from workbench.metrics.judges.reply_parser import describe_unreadable
from workbench.metrics.judges.transcript import find_agents, format_response, list_intermediate_parts
from workbench.metrics.metric_types import (
    Conclusion,
    JudgeOptions,
    MetricInfo,
    ModelJudge,
    ModelQuestion,
    Opinion,
    Options,
    SentenceLabel,
    describe,
    find_nearest,
    is_number,
)
from workbench.model.criteria import explain_wrong_vendor, find_known_key
from workbench.model.results import SUPPORTED_LABELS, RubricScore, Score, SentenceScore

# Conclusions from several samples: votes by majority, grades by mean, rubrics and sentences one by one.


class Sentence(NamedTuple):
    """One sentence of the agent, with the number of its response in the turn (from 1)."""

    text: str
    response: int


def decide_majority(scores: Sequence[float | None]) -> float | None:
    """Return 1 if more scores are 1 than 0, else 0 (also for a tie); None if there is no score."""
    votes = [score for score in scores if score is not None]
    return None if not votes else 1.0 if sum(votes) * 2 > len(votes) else 0.0


def by_majority(opinions: Sequence[Opinion]) -> Conclusion:
    """Count each sample as a vote."""
    return Conclusion(decide_majority([opinion.score for opinion in opinions]))


def by_majority_of_two(opinions: Sequence[Opinion], *, low: float, high: float) -> Conclusion:
    """Count each sample as a vote for one of two ratings. A tie is the lower one."""
    votes = [opinion.score for opinion in opinions if opinion.score is not None]
    return Conclusion(None if not votes else high if votes.count(high) * 2 > len(votes) else low)


def by_preference(opinions: Sequence[Opinion]) -> Conclusion:
    """Return 1 if more samples prefer the candidate (1) than the baseline (0), 0 if fewer do, else 0.5."""
    votes = [opinion.score for opinion in opinions if opinion.score is not None]
    lead = votes.count(1.0) - votes.count(0.0)
    return Conclusion(None if not votes else 1.0 if lead > 0 else 0.0 if lead < 0 else 0.5)


def by_mean(opinions: Sequence[Opinion]) -> Conclusion:
    """Average the grades of the samples.

    The mean, not the median: one sample that is a grade off moves the mean by a fraction, but may move the median by a
    whole grade. The spread shows whether samples disagree.
    """
    return Conclusion(_compute_mean([opinion.score for opinion in opinions]), spread=_compute_spread(opinions))


def by_rubrics(opinions: Sequence[Opinion], *, rubrics: Mapping[str, str]) -> Conclusion:
    """Return the share of the rubrics (texts by id) that are met, each by majority."""
    scores = tuple(_score_rubric(rubric_id, text, opinions) for rubric_id, text in rubrics.items())
    missing_ids = [repr(rubric.rubric_id) for rubric in scores if rubric.score is None]
    if missing_ids and any(opinion.problem is None for opinion in opinions):  # a score must cover all rubrics
        return Conclusion(None, f"no sample of the judge says anything about {', '.join(missing_ids)}", rubrics=scores)
    return Conclusion(_compute_mean([rubric.score for rubric in scores]), rubrics=scores)


def by_sentences(opinions: Sequence[Opinion], *, sentences: Mapping[int, Sentence]) -> Conclusion:
    """Return the share of acceptable sentences (by number), each by majority: the mean over the responses."""
    labelled = {number: _score_sentence(number, sentence, opinions) for number, sentence in sentences.items()}
    scores = tuple(labelled.values())
    missing_numbers = [str(number) for number, score in labelled.items() if score.score is None]
    if missing_numbers:
        has_readable_sample = any(opinion.problem is None for opinion in opinions)
        reason = (
            f"no sample of the judge says anything about the sentences {', '.join(missing_numbers)}"
            if has_readable_sample
            else None
        )
        return Conclusion(None, reason, sentences=scores)
    shares = compute_sentence_share({number: score.score for number, score in labelled.items()}, sentences)
    return Conclusion(shares, sentences=scores, spread=_compute_spread(opinions))


def compute_sentence_share(scores: Mapping[int, float | None], sentences: Mapping[int, Sentence]) -> float | None:
    """Return the mean over the responses of the share of acceptable sentences; None if a sentence has no score."""
    if any(scores.get(number) is None for number in sentences):
        return None
    responses: dict[int, list[float | None]] = {}
    for number, sentence in sentences.items():
        responses.setdefault(sentence.response, []).append(scores[number])
    return _compute_mean([_compute_mean(each) for each in responses.values()])


def _score_sentence(number: int, sentence: Sentence, opinions: Sequence[Opinion]) -> SentenceScore:
    labels = [opinion.sentences[number] for opinion in opinions if number in opinion.sentences]
    score = decide_majority([score_label(each.label) for each in labels])
    deciding_label = _find_most_frequent([each for each in labels if score_label(each.label) == score])
    return SentenceScore(
        sentence=sentence.text,
        response=sentence.response,
        score=score,
        label=deciding_label.label if deciding_label is not None else None,
        rationale=deciding_label.rationale if deciding_label is not None else "",
        evidence=deciding_label.evidence if deciding_label is not None else "",
        votes=dict(Counter(each.label for each in labels)),
    )


def score_label(label: str) -> float:
    """Return 1 for the label of an acceptable sentence, else 0."""
    return 1.0 if label in SUPPORTED_LABELS else 0.0


def _find_most_frequent(labels: Sequence[SentenceLabel]) -> SentenceLabel | None:
    """Return the first label among the most frequent ones."""
    votes = Counter(each.label for each in labels)
    return max(labels, key=lambda each: votes[each.label], default=None)


def _score_rubric(rubric_id: str, text: str, opinions: Sequence[Opinion]) -> RubricScore:
    answers = [opinion.rubrics.get(rubric_id, (None, "")) for opinion in opinions]
    score = decide_majority([vote for vote, _ in answers])
    return RubricScore(
        rubric_id=rubric_id,
        text=text,
        score=score,
        rationale=next((rationale for vote, rationale in answers if vote is not None and vote == score), ""),
        yes=sum(vote == 1.0 for vote, _ in answers),
        no=sum(vote == 0.0 for vote, _ in answers),
    )


def _compute_mean(scores: Sequence[float | None]) -> float | None:
    values = [score for score in scores if score is not None]
    return sum(values) / len(values) if values else None


def _compute_spread(opinions: Sequence[Opinion]) -> float | None:
    values = [opinion.score for opinion in opinions if opinion.score is not None]
    return statistics.stdev(values) if len(values) > 1 else None


# The option `judge_model_options` of a criterion.

OPTION = "judge_model_options"
WITH_INTERMEDIATE = "include_intermediate_responses_in_final"
"""Whether intermediate responses count as part of the answer. Only metrics that judge one answer read it."""
DESCRIBE_INTERMEDIATE: Mapping[str, str] = {WITH_INTERMEDIATE: "also judge intermediate responses (default false)"}
INTERMEDIATE_CHOICES: Mapping[str, Sequence[str | bool]] = {WITH_INTERMEDIATE: (False, True)}

SAMPLES = 5
MOST_SAMPLES = 100
KNOWN_OPTIONS = ("judge_model", "judge_model_config", "num_samples", "parallelism_limit")


def describe_judge_options(*, samples: int) -> Mapping[str, str]:
    """Describe `judge_model_options` of a judge with `samples` samples by default."""
    return {
        OPTION: f"judge_model (default: the one of the settings), num_samples (default {samples}), "
        "parallelism_limit (default: that of the model), judge_model_config (as in the Gemini API)",
    }


DESCRIPTION = describe_judge_options(samples=SAMPLES)


def read_judge_options(options: Options, *, samples: int = SAMPLES) -> JudgeOptions:
    """Read the options of the judge, with `samples` samples by default. Problems are added to `options`."""
    raw_options = options.raw(OPTION)
    if raw_options is None:
        return JudgeOptions(samples=samples)
    if not isinstance(raw_options, Mapping):
        options.refuse(OPTION, found=describe(raw_options), expected="an object")
        return JudgeOptions(samples=samples)
    values = {find_known_key(name, KNOWN_OPTIONS): value for name, value in raw_options.items()}
    for name in raw_options:
        if find_known_key(name, KNOWN_OPTIONS) not in KNOWN_OPTIONS:
            guess = find_nearest(name, KNOWN_OPTIONS)
            expected = f"{guess!r} (did you mean that?)" if guess else f"one of {', '.join(KNOWN_OPTIONS)}"
            options.refuse(f"{OPTION}.{name}", found=f"the unknown option {name!r}", expected=expected)
    model = values.get("judge_model")
    if model is not None and not (isinstance(model, str) and model.strip()):
        options.refuse(f"{OPTION}.judge_model", found=describe(model), expected="the name of a model")
        model = None
    elif model is not None and (expected_vendor := explain_wrong_vendor(model)) is not None:
        options.refuse(f"{OPTION}.judge_model", found=repr(model), expected=expected_vendor)
    config = values.get("judge_model_config")
    if config is not None and not isinstance(config, Mapping):
        options.refuse(f"{OPTION}.judge_model_config", found=describe(config), expected="an object")
        config = None
    place = f"{options.place}.{OPTION}.judge_model_config"
    options.problems += find_unknown_keys(config or {}, model=model or options.judge, place=place)
    return JudgeOptions(
        model=model,
        samples=_read_count(options, values, "num_samples", most=MOST_SAMPLES) or samples,
        parallel=_read_count(options, values, "parallelism_limit", most=None),
        config=dict(config or {}),
    )


def _read_count(options: Options, values: Mapping[str, Any], name: str, *, most: int | None) -> int | None:
    value = values.get(name)
    if value is None:
        return None
    if isinstance(value, int) and not isinstance(value, bool) and value > 0 and (most is None or value <= most):
        return value
    expected = "a whole number from 1 on" if most is None else f"a whole number from 1 to {most}"
    options.refuse(f"{OPTION}.{name}", found=describe(value), expected=expected)
    return None


# The common metric info of judges.

_NONE: Mapping[str, str] = {}
_NO_CHOICES: Mapping[str, Sequence[str | bool]] = {}


def make_judge_info(
    name: str,
    *,
    purpose: str,
    when: str,
    columns: Sequence[str] = (),
    bounds: tuple[float, float] = (0.0, 1.0),
    options: Mapping[str, str] = _NONE,
    choices: Mapping[str, Sequence[str | bool]] = _NO_CHOICES,
) -> MetricInfo:
    """Describe a judge metric that needs no expected response. `options` are those beside `judge_model_options`.

    `bounds` are the lowest and the highest score. For the other parameters see MetricInfo.
    """
    lowest, highest = bounds
    return MetricInfo(
        name=name,
        family="judge",
        purpose=purpose,
        when=when,
        lowest=lowest,
        highest=highest,
        needs_reference=False,
        needs=frozenset({"judge"}),
        fits_scenarios=True,
        columns=columns,
        options={**DESCRIPTION, **options},
        choices=choices,
    )


# The evaluation service of Vertex AI, which scores instead of a judge model where a criterion selects it.

SCORER = "scorer"
SCORERS = ("judge", "vertex")
SCORER_CHOICES: Mapping[str, Sequence[str | bool]] = {SCORER: SCORERS}
SCORER_DESCRIPTION = {SCORER: "what scores: judge (default), a model; vertex, the evaluation service of Vertex AI"}

Instance = Callable[[Turn, CaseView], Mapping[str, Any] | Score]


def is_scored_by_service(options: Options) -> bool:
    """True if the criterion selects the service. Options for a judge model are a problem then."""
    if options.choice(SCORER, SCORERS, default="judge") != "vertex":
        return False
    judge_options = options.raw(OPTION)
    if judge_options is not None:
        options.refuse(
            OPTION,
            found=describe(judge_options),
            expected=f'none, because "{SCORER}": "vertex" uses no judge model',
        )
    return True


def make_service_judge(
    name: str,
    *,
    metric: str,
    instance: Instance,
    bounds: tuple[float, float] = (0.0, 1.0),
    judges_conversation: bool = False,
) -> ModelJudge:
    """Make a judge that asks the service once.

    `metric` is the service's name of the metric. `instance` builds the data to score.
    """
    lowest, best = bounds

    def ask(turn: Turn, view: CaseView) -> ModelQuestion | Score:
        data = instance(turn, view)
        if isinstance(data, Score):
            return data
        prompt = json.dumps({"metric": metric, "instance": data}, ensure_ascii=False, indent=1)
        return ModelQuestion(
            prompt=prompt, reply_schema={}, read=read_service_reply, conclude=by_mean, lowest=lowest, best=best
        )

    options = JudgeOptions(model=f"{VERTEX_EVALUATION}{metric}", samples=1)
    return ModelJudge(name=name, options=options, ask=ask, judges_conversation=judges_conversation)


def build_turn_instance(turn: Turn, view: CaseView) -> Mapping[str, Any] | Score:
    """Build the data of one message and its response, with the expected response if there is one."""
    del view
    assert turn.actual is not None
    response = format_response(turn.actual)
    if not response:
        return Score.undefined("the agent gave no response in words")
    instance = {"prompt": turn.actual.user_content.text_with_markers(thoughts=False), "response": response}
    reference = format_response(turn.expected)
    return {**instance, "reference": reference} if reference else instance


def build_conversation_instance(turn: Turn, view: CaseView) -> Mapping[str, Any]:
    """Build the data of the whole conversation, with the details of the agents."""
    del turn
    turns = [each for each in view.turns if each.actual is not None]
    agents = {
        name: {
            "agent_id": name,
            "instruction": agent.get("instructions") or "",
            "tools": agent.get("tool_declarations") or agent.get("toolDeclarations") or [],
        }
        for name, agent in find_agents(turns).items()
    }
    data = [{"turn_index": number, "events": _list_events(each)} for number, each in enumerate(turns)]
    return {"agent_data": {"agents": agents, "turns": data}}


def _list_events(turn: Turn) -> Sequence[Mapping[str, Any]]:
    assert turn.actual is not None
    messages = [("user", turn.actual.user_content.parts or ()), *list_intermediate_parts(turn.actual)]
    if turn.actual.final_response is not None:
        messages.append(("agent", turn.actual.final_response.parts or ()))
    events = []
    for author, parts in messages:
        visible_parts = [part.model_dump(mode="json", exclude_none=True) for part in parts if not part.thought]
        if visible_parts:
            role = "user" if author == "user" else "model"
            events.append({"author": author, "content": {"role": role, "parts": visible_parts}})
    return events


def read_service_reply(reply: str) -> Opinion:
    """Read the score of the service, its explanation and its rubrics."""
    try:
        result = json.loads(reply)
    except ValueError:
        result = None
    if not isinstance(result, Mapping) or not is_number(result.get("score")):
        return Opinion(problem=describe_unreadable(reply, "a score"))
    reasons = [str(result.get("explanation") or "")]
    for rubric in result.get("rubrics") or ():
        why = f" ({rubric['reasoning']})" if rubric.get("reasoning") else ""
        reasons.append(f"{'met' if rubric.get('met') else 'not met'}: {rubric.get('text')}{why}")
    return Opinion(float(result["score"]), "; ".join(filter(None, reasons)))
