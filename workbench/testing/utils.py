"""The names that programs import from the SDK's modules `utils` and `constants`.

`workbench.testing.constants` is a name of this module.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

# Replies of models that write and answer rubrics. Formats of the SDK.

_BLOCK = re.compile(r"<question>(.*?)</question>", re.DOTALL)
_VERDICT = re.compile(r"^[\s*_#>-]*Verdict:\W*(yes|no)\b", re.IGNORECASE | re.MULTILINE)
_SIDES = {
    "baseline": re.compile(r"\[\[Response A Answers:\]\](.*?)\[\[Rubric Score:", re.DOTALL),
    "candidate": re.compile(r"\[\[Response B Answers:\]\](.*?)\[\[Rubric Score:", re.DOTALL),
}
_RATING = re.compile(r"\[\[\s*SxSRating\s*:\s*([AB<>=\s]+?)\s*\]\]")
_PREFERENCES = {  # by the sign: how much B, the candidate, is better than A
    "B>>A": 1.0,
    "A<<B": 1.0,
    "B>A": 0.5,
    "A<B": 0.5,
    "A=B": 0.0,
    "B=A": 0.0,
    "A>B": -0.5,
    "B<A": -0.5,
    "A>>B": -1.0,
    "B<<A": -1.0,
}


class UnreadableRubrics(ValueError):
    """A reply does not have the format that its reader expects."""


def parse_rubrics(rubric_generation_response: str) -> dict[str, Any]:
    """Read the questions that a model wrote: a JSON object with `questions`, perhaps in a block of Markdown.

    Raises UnreadableRubrics.
    """
    _, fence, rest = rubric_generation_response.partition("```json")
    text = rest.partition("```")[0] if fence else rubric_generation_response
    try:
        parsed = json.loads(text)
    except json.JSONDecodeError as error:
        raise UnreadableRubrics(f"the reply of the model is no JSON: {error}") from None
    if isinstance(parsed, list):
        return {"questions": parsed}
    if not isinstance(parsed, dict):
        raise UnreadableRubrics("the reply of the model is no JSON object with questions")
    return parsed


def parse_question_blocks(txt: str) -> list[tuple[str, bool]]:
    """Read the questions in `<question>` blocks with their verdicts. Blocks without a verdict are left out."""
    blocks = _BLOCK.findall(txt) or [txt]
    answers = ((parse_question(block), parse_verdict(block)) for block in blocks)
    return [(question, verdict) for question, verdict in answers if question and verdict is not None]


def parse_question(txt: str) -> str | None:
    """Read the question of a block: after `Question:`, or its first line."""
    _, label, question = txt.partition("Question:")
    text = question if label else txt.partition("Verdict:")[0]
    return next((line.removeprefix("STEP 1:").strip() for line in text.strip().splitlines()), None)


def parse_verdict(txt: str) -> bool | None:
    """Read the verdict of a block: its last line `Verdict: yes` or `no`; None if there is none.

    `Verdict:` within a line may be a quotation of the response.
    """
    verdicts = _VERDICT.findall(txt)
    return verdicts[-1].lower() == "yes" if verdicts else None


def parse_pointwise_rubric_result(results: Sequence[str]) -> dict[str, Any]:
    """Read the replies of a judge that answers rubrics: the share of the questions with `yes`, each by majority.

    `score` is None if no reply has a verdict.
    """
    answers = _count_answers(results)
    return {
        "score": sum(answers.values()) / len(answers) if answers else None,
        "rubric_verdict_pairs": _format_answers(answers),
        "raw_outputs": list(results),
    }


def parse_named_rubric_result(results: Sequence[str]) -> dict[str, Any]:
    """Read the replies as `parse_pointwise_rubric_result`, with the verdict of each question in `per_rubric_result`."""
    parsed = parse_pointwise_rubric_result(results)
    answers = _count_answers(results)
    return {**parsed, "per_rubric_result": [{"rubric": key, "verdict": value} for key, value in answers.items()]}


def _count_answers(replies: Sequence[str]) -> dict[str, bool]:
    """Return the answer of the majority of replies to each question."""
    votes: dict[str, int] = {}
    for reply in replies:
        for question, verdict in parse_question_blocks(reply):
            votes[question] = votes.get(question, 0) + (1 if verdict else -1)
    return {question: count > 0 for question, count in votes.items()}


def parse_pairwise_rubric_result(predictions: Sequence[str]) -> dict[str, Any]:
    """Read the first reply of a judge that compares two responses by rubrics.

    `score` is from -1 (the baseline is much better) to 1 (the candidate is); None if the reply has no rating.
    """
    reply = predictions[0]
    answers = {side: found[1] if (found := pattern.search(reply)) else "" for side, pattern in _SIDES.items()}
    ratings = _RATING.findall(reply)  # an earlier one may be a quotation of a response
    score = _PREFERENCES.get(re.sub(r"\s", "", ratings[-1])) if ratings else None
    return {
        "pairwise_choice": None if score is None else _describe_preference(score),
        "score": score,
        **{
            f"{side}_rubric_verdict_pairs": _format_answers(dict(parse_question_blocks(text)))
            for side, text in answers.items()
        },
        "raw_outputs": list(predictions),
    }


def _format_answers(answers: Mapping[str, bool]) -> str:
    return "\n".join(f"{question}: {answer}" for question, answer in answers.items())


def _describe_preference(score: float) -> str:
    if not score:
        return "TIE"
    return "CANDIDATE" if score > 0 else "BASELINE"


# Names of metrics and columns.


class Metric:
    """Names of metrics."""

    COHERENCE = "coherence"
    FLUENCY = "fluency"
    SAFETY = "safety"
    GROUNDEDNESS = "groundedness"
    INSTRUCTION_FOLLOWING = "instruction_following"
    VERBOSITY = "verbosity"
    TEXT_QUALITY = "text_quality"
    SUMMARIZATION_QUALITY = "summarization_quality"
    QUESTION_ANSWERING_QUALITY = "question_answering_quality"
    MULTI_TURN_CHAT_QUALITY = "multi_turn_chat_quality"
    MULTI_TURN_SAFETY = "multi_turn_safety"
    RUBRIC_BASED_INSTRUCTION_FOLLOWING = "rubric_based_instruction_following"
    PAIRWISE_COHERENCE = "pairwise_coherence"
    PAIRWISE_FLUENCY = "pairwise_fluency"
    PAIRWISE_SAFETY = "pairwise_safety"
    PAIRWISE_GROUNDEDNESS = "pairwise_groundedness"
    PAIRWISE_INSTRUCTION_FOLLOWING = "pairwise_instruction_following"
    PAIRWISE_VERBOSITY = "pairwise_verbosity"
    PAIRWISE_TEXT_QUALITY = "pairwise_text_quality"
    PAIRWISE_SUMMARIZATION_QUALITY = "pairwise_summarization_quality"
    PAIRWISE_QUESTION_ANSWERING_QUALITY = "pairwise_question_answering_quality"
    PAIRWISE_MULTI_TURN_CHAT_QUALITY = "pairwise_multi_turn_chat_quality"
    PAIRWISE_MULTI_TURN_SAFETY = "pairwise_multi_turn_safety"
    EXACT_MATCH = "exact_match"
    BLEU = "bleu"
    ROUGE = "rouge"
    ROUGE_1 = "rouge_1"
    ROUGE_2 = "rouge_2"
    ROUGE_L = "rouge_l"
    ROUGE_L_SUM = "rouge_l_sum"
    TOOL_CALL_VALID = "tool_call_valid"
    TOOL_NAME_MATCH = "tool_name_match"
    TOOL_PARAMETER_KEY_MATCH = "tool_parameter_key_match"
    TOOL_PARAMETER_KV_MATCH = "tool_parameter_kv_match"
    TRAJECTORY_EXACT_MATCH = "trajectory_exact_match"
    TRAJECTORY_IN_ORDER_MATCH = "trajectory_in_order_match"
    TRAJECTORY_ANY_ORDER_MATCH = "trajectory_any_order_match"
    TRAJECTORY_PRECISION = "trajectory_precision"
    TRAJECTORY_RECALL = "trajectory_recall"
    TRAJECTORY_SINGLE_TOOL_USE = "trajectory_single_tool_use"
    LATENCY = "latency_in_seconds"
    FAILURE = "failure"


class MetricResult:
    """Parts of the names of columns after the slash."""

    ROW_COUNT_KEY = "row_count"
    SCORE_KEY = "score"
    EXPLANATION_KEY = "explanation"
    RAW_OUTPUT_KEY = "raw_output"
    RAW_OUTPUTS_KEY = "raw_outputs"
    RUBRIC_LEVEL_INSTRUCTION_FOLLOWING_KEY = "per_rubric_result"
    PAIRWISE_CHOICE_KEY = "pairwise_choice"


class Dataset:
    """Names of columns with a meaning."""

    MODEL_RESPONSE_COLUMN = "response"
    BASELINE_MODEL_RESPONSE_COLUMN = "baseline_model_response"
    PROMPT_COLUMN = "prompt"
    REFERENCE_COLUMN = "reference"
    PREDICTED_TRAJECTORY_COLUMN = "predicted_trajectory"
    REFERENCE_TRAJECTORY_COLUMN = "reference_trajectory"
    RUBRICS_COLUMN = "rubrics"
