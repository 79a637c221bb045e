"""Metrics on the final response: `response_match_score` (ADK's), ROUGE, BLEU and equality.

`response_match_score` is ROUGE-1 F1 by the definition of google-adk 2.13 (`evaluation/final_response_match_v1.py`):
Unicode tokenizer, Porter stemmer, thoughts included, 0 if there is nothing to compare. A hint says if that is
misleading. The other metrics use rouge-score and sacrebleu, ignore thoughts, and are undefined if there is nothing to
compare. Vertex AI's metrics on calls that are written in the response are here too.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from workbench.metrics.case_view import Turn, is_same
from workbench.metrics.metric_types import (
    Definition,
    Judge,
    MetricInfo,
    Options,
    TextJudge,
    TextQuestion,
    TurnJudge,
    describe,
    is_number,
)
from workbench.metrics.text_process import BLEU_TOKENIZERS, ROUGE_TOKENIZERS, Measure, TextScore, TextTask
from workbench.model.evalset import Content, Invocation
from workbench.model.results import Score

RESPONSE_MATCH = "response_match_score"
_NO_REFERENCE = Score.undefined("the case expects no response")
_NO_COLUMN = Score.undefined("the row has no reference")
_NO_RESPONSE = Score.undefined("the row has no response")


def ask_response_match(turn: Turn) -> TextQuestion | Score:
    """Ask for ROUGE-1 F1 as in ADK, in [0, 1]. If there are thoughts, ask again without them, for the hint."""
    actual, expected = _find_responses(turn)
    if expected is None and turn.is_row:
        return _NO_COLUMN
    if actual is None and turn.is_recorded:
        return _NO_RESPONSE
    texts = [(_read_text(actual, thoughts=True), _read_text(expected, thoughts=True))]
    if _has_thoughts(actual) or _has_thoughts(expected):
        texts.append((_read_text(actual, thoughts=False), _read_text(expected, thoughts=False)))
    tasks = [TextTask("response_match", candidate, reference) for candidate, reference in texts]
    return TextQuestion(tasks, partial(_read_response_match, texts[0]))


def _read_response_match(texts: tuple[str, str], answers: Sequence[TextScore]) -> Score:
    score = answers[0]
    return Score(score.value, hint=_explain_response_match(texts, answers))


def _explain_response_match(texts: tuple[str, str], answers: Sequence[TextScore]) -> str | None:
    score = answers[0]
    if not any(texts):
        return "Both responses are empty, which ADK scores as 0."
    if not texts[1]:
        return "The case expects no text, which ADK scores as 0."
    if not score.candidate_units and not score.reference_units:
        start = "The responses are equal, but have" if texts[0] == texts[1] else "The responses have"
        return f"{start} no word that ROUGE counts (only signs or emoji), which ADK scores as 0."
    if len(answers) > 1 and answers[1].value != score.value:
        return f"ADK counts thoughts as part of the response; without them the score is {answers[1].value:.3g}."
    return None


def ask_overlap(turn: Turn, task: TextTask) -> TextQuestion | Score:
    """Ask for ROUGE or BLEU of the response without thoughts, in [0, 1]; undefined if neither text has a unit."""
    texts = _read_texts(turn)
    if isinstance(texts, Score):
        return texts
    candidate, reference = texts
    filled = task._replace(candidate=candidate, reference=reference)
    return TextQuestion([filled], partial(_read_overlap, filled))


def _read_overlap(task: TextTask, answers: Sequence[TextScore]) -> Score:
    score = answers[0]
    if not score.candidate_units and not score.reference_units:
        group = "pair of words" if task.words == 2 else f"group of {task.words} words"
        unit = group if task.measure == "rouge_2" else "word"
        return Score.undefined(f"neither text has a {unit} to compare")
    if task.measure == "bleu" and not task.effective_order and min(score[1:]) < 4 and score.value < 1.0:
        return Score(score.value, hint="A text of fewer than four words scores near 0 without effective_order.")
    return Score(score.value)


def exact_match(turn: Turn, *, ignore_case: bool, ignore_whitespace: bool) -> Score:
    """Return 1 if the response without thoughts is the expected text, else 0."""
    texts = _read_texts(turn)
    if isinstance(texts, Score):
        return texts
    if ignore_whitespace:
        texts = (" ".join(texts[0].split()), " ".join(texts[1].split()))
    if ignore_case:
        texts = (texts[0].casefold(), texts[1].casefold())
    return Score(1.0 if texts[0] == texts[1] else 0.0)


def _read_texts(turn: Turn) -> tuple[str, str] | Score:
    """Return the texts of both responses without thoughts, or an undefined score if one is missing."""
    actual, expected = _find_responses(turn)
    if expected is None:
        return _NO_COLUMN if turn.is_row else _NO_REFERENCE
    if actual is None and turn.is_recorded:
        return _NO_RESPONSE
    return _read_text(actual, thoughts=False), _read_text(expected, thoughts=False)


def _find_responses(turn: Turn) -> tuple[Content | None, Content | None]:
    actual = None if turn.actual is None else turn.actual.final_response
    return actual, None if turn.expected is None else turn.expected.final_response


def _read_text(content: Content | None, *, thoughts: bool) -> str:
    return "" if content is None else content.text(thoughts=thoughts)


def _has_thoughts(content: Content | None) -> bool:
    return content is not None and any(part.thought and part.text for part in content.parts or ())


def _prepare_response_match(_options: Options) -> Sequence[Judge]:
    return [TextJudge(name=RESPONSE_MATCH, ask=ask_response_match)]


def _prepare_rouge(options: Options, measure: Measure) -> Sequence[Judge]:
    task = TextTask(
        measure,
        "",
        "",
        stemmer=options.flag("stemmer"),
        tokenizer=options.choice("tokenizer", ROUGE_TOKENIZERS, default="unicode"),
        words=_read_words(options) if measure == "rouge_2" else 2,
    )
    return [TextJudge(name=options.metric, ask=partial(ask_overlap, task=task))]


def _read_words(options: Options) -> int:
    """Read how many words in a row ROUGE compares."""
    value = options.raw("words")
    if value is None:
        return 2
    if is_number(value) and value in range(2, 10):
        return int(value)
    options.refuse("words", found=describe(value), expected="a whole number from 2 to 9")
    return 2


def _prepare_bleu(options: Options) -> Sequence[Judge]:
    task = TextTask(
        "bleu",
        "",
        "",
        tokenizer=options.choice("tokenizer", BLEU_TOKENIZERS, default="auto"),
        effective_order=options.flag("effective_order", default=True),
    )
    return [TextJudge(name=options.metric, ask=partial(ask_overlap, task=task))]


def _prepare_exact_match(options: Options) -> Sequence[Judge]:
    score = partial(
        exact_match, ignore_case=options.flag("ignore_case"), ignore_whitespace=options.flag("ignore_whitespace")
    )
    return [TurnJudge(name=options.metric, score=score)]


_ROUGE_OPTIONS = {
    "stemmer": "compare English words by their stem (default false)",
    "tokenizer": "unicode (default): words of every script, single characters where there are no spaces; rouge_score: "
    "ASCII letters and digits only",
}
_WORDS_OPTION = {"words": "how many words in a row are compared, 2 (default) to 9"}
_ROUGE_CHOICES: Mapping[str, Sequence[str | bool]] = {"stemmer": (False, True), "tokenizer": ROUGE_TOKENIZERS}


def _define_rouge(measure: Measure, *, purpose: str, when: str) -> Definition:
    info = MetricInfo(
        name=measure,
        family="response",
        purpose=purpose,
        when=when,
        needs=frozenset({"text"}),
        options=_ROUGE_OPTIONS | _WORDS_OPTION if measure == "rouge_2" else _ROUGE_OPTIONS,
        choices=_ROUGE_CHOICES,
    )
    return Definition(info=info, prepare=partial(_prepare_rouge, measure=measure))


_TEXT_METRICS = (
    Definition(
        info=MetricInfo(
            name=RESPONSE_MATCH,
            family="response",
            purpose="How many words the response shares with the expected one (ROUGE-1 F1), as ADK scores it.",
            when="The wording of the answer is more or less fixed.",
            needs=frozenset({"text"}),
        ),
        prepare=_prepare_response_match,
    ),
    _define_rouge(
        "rouge_1", purpose="Single words shared with the expected response (F1).", when="Content, not order."
    ),
    _define_rouge(
        "rouge_2", purpose="Pairs of words shared with the expected response (F1).", when="Phrasing matters."
    ),
    _define_rouge("rouge_l", purpose="The longest common sequence of words (F1).", when="The order of words matters."),
    _define_rouge(
        "rouge_l_sum",
        purpose="The longest common sequences, line by line (F1).",
        when="Summaries of several lines.",
    ),
    Definition(
        info=MetricInfo(
            name="bleu",
            family="response",
            purpose="How much of the response, up to four words at a time, is in the expected one (BLEU).",
            when="Translations, or texts close to a template.",
            needs=frozenset({"text"}),
            options={
                "effective_order": "count only the lengths that a short text has (default true; Vertex: false)",
                "tokenizer": "auto (default): 13a, with characters of scripts without spaces apart; or 13a, intl, "
                "char, zh",
            },
            choices={"effective_order": (True, False), "tokenizer": BLEU_TOKENIZERS},
        ),
        prepare=_prepare_bleu,
    ),
    Definition(
        info=MetricInfo(
            name="exact_match",
            family="response",
            purpose="Whether the response is the expected text.",
            when="There is one right answer: a number, a code, a name.",
            options={
                "ignore_case": "ignore case (default false)",
                "ignore_whitespace": "treat runs of blanks and line breaks as one blank (default false)",
            },
            choices={"ignore_case": (False, True), "ignore_whitespace": (False, True)},
        ),
        prepare=_prepare_exact_match,
    ),
)


# Tool calls that a model wrote as text in its response, compared with those in the reference.
#
# Definitions: Vertex AI documentation, "Tool use and function calling". Both texts are JSON with `content` and
# `tool_calls`, a list or the JSON text of a list; only the first call counts. The documentation does not define these
# cases, so they are our choice:
# - The "total number of parameters" counts the parameters of either call, so that 1 means the same parameters.
# - Values are compared in canonical form.
# - An unreadable response has no call: the score is 0.
# - There is no score without a readable reference, or if neither call has a parameter.
#
# Parity with the service is not claimed, because it cannot be tested.


class WrittenCall(NamedTuple):
    """A call in the text of a response."""

    name: str
    arguments: Mapping[str, Any]


class NoCall(ValueError):
    """A text has no call. The message describes the problem."""


def read_call(text: str) -> WrittenCall:
    """Read the first call in the text of a response. Raises NoCall."""
    response = _read_json(text)
    if not isinstance(response, dict) or "tool_calls" not in response:
        raise NoCall('is not a JSON object with "content" and "tool_calls"')
    calls = _read_json(response["tool_calls"])
    if not isinstance(calls, list) or not calls:
        raise NoCall('has no call in "tool_calls"')
    call = calls[0]
    name, arguments = (call.get("name"), _read_json(call.get("arguments"))) if isinstance(call, dict) else (None, None)
    if not isinstance(name, str) or not name or not isinstance(arguments, dict):
        raise NoCall('has a first call without "name" and "arguments"')
    return WrittenCall(name, arguments)


def call_valid(turn: Turn) -> Score:
    """Return 1 if the response has a call with a name and arguments, else 0."""
    response = _get_text(turn.actual)
    if response is None:
        return _explain_no_response(turn)
    try:
        read_call(response)
    except NoCall as problem:
        return Score(0.0, hint=f"The response {problem}.")
    return Score(1.0)


def name_match(predicted: WrittenCall, reference: WrittenCall) -> Score:
    """Return 1 if both calls are of the same tool, else 0."""
    return Score(float(predicted.name == reference.name))


def parameter_key_match(predicted: WrittenCall, reference: WrittenCall) -> Score:
    """Return the share of the parameters of either call that both have, in [0, 1]."""
    return _compute_share(_list_shared_parameters(predicted, reference), predicted, reference)


def parameter_kv_match(predicted: WrittenCall, reference: WrittenCall) -> Score:
    """Return the share of the parameters of either call that both have with the same value, in [0, 1]."""
    shared_names = _list_shared_parameters(predicted, reference)
    equal = [name for name in shared_names if is_same(predicted.arguments[name], reference.arguments[name])]
    return _compute_share(equal, predicted, reference)


def _list_shared_parameters(predicted: WrittenCall, reference: WrittenCall) -> list[str]:
    return [name for name in predicted.arguments if name in reference.arguments]


def _compute_share(names: Sequence[str], predicted: WrittenCall, reference: WrittenCall) -> Score:
    all_names = {*predicted.arguments, *reference.arguments}
    return Score(len(names) / len(all_names)) if all_names else Score.undefined("neither call has a parameter")


def _compare_calls(turn: Turn, formula: Callable[[WrittenCall, WrittenCall], Score]) -> Score:
    expected, actual = _get_text(turn.expected), _get_text(turn.actual)
    if expected is None:
        return Score.undefined("the row has no reference" if turn.is_row else "the case expects no response")
    if actual is None:
        return _explain_no_response(turn)
    try:
        reference = read_call(expected)
    except NoCall as problem:
        return Score.undefined(f"the reference {problem}")
    try:
        return formula(read_call(actual), reference)
    except NoCall as problem:
        return Score(0.0, hint=f"The response {problem}.")


def _explain_no_response(turn: Turn) -> Score:
    return Score.undefined("the row has no response" if turn.is_recorded else "the agent gave no response")


def _get_text(invocation: Invocation | None) -> str | None:
    return None if invocation is None else invocation.response_text(thoughts=False)


def _read_json(value: Any) -> Any:
    """Return a value that may be written as JSON text; None if the text is no JSON."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return None


def _define_call_metric(
    name: str, score: Callable[[Turn], Score], *, purpose: str, needs_reference: bool = True
) -> Definition:
    def prepare(options: Options) -> Sequence[Judge]:
        return [TurnJudge(name=options.metric, score=score)]

    when = "A model writes its call as JSON into its response."
    info = MetricInfo(name=name, family="response", purpose=purpose, when=when, needs_reference=needs_reference)
    return Definition(info=info, prepare=prepare)


_CALL_METRICS = (
    _define_call_metric(
        "tool_call_valid",
        call_valid,
        purpose="Whether the response is JSON with a tool call.",
        needs_reference=False,
    ),
    _define_call_metric(
        "tool_name_match",
        lambda turn: _compare_calls(turn, name_match),
        purpose="Whether the call in the response is of the expected tool.",
    ),
    _define_call_metric(
        "tool_parameter_key_match",
        lambda turn: _compare_calls(turn, parameter_key_match),
        purpose="Share of the parameters that the written and the expected call have in common.",
    ),
    _define_call_metric(
        "tool_parameter_kv_match",
        lambda turn: _compare_calls(turn, parameter_kv_match),
        purpose="Share of the parameters that have the same value in the written and the expected call.",
    ),
)

METRICS = (*_TEXT_METRICS, *_CALL_METRICS)
