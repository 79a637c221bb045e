"""What the helper computes, with rouge-score and sacrebleu, each imported when it is first asked for."""

from __future__ import annotations

from functools import cache
from typing import Any

from workbench.metrics.text_helper.libraries import import_rouge
from workbench.metrics.text_helper.tasks import TextScore, TextTask
from workbench.metrics.text_helper.tokens import UnicodeTokenizer, split_apart

_ROUGE_TYPES = {"rouge_1": "rouge1", "rouge_2": "rouge2", "rouge_l": "rougeL", "rouge_l_sum": "rougeLsum"}
# The longest common sequence takes time and memory for each pair of words: at this many about 5 s and 300 MB.
_PAIRS_AT_MOST = 20_000_000


class TooLong(ValueError):
    """Texts that would take minutes and gigabytes to compare."""


def compute(task: TextTask) -> TextScore:
    """Compare the two texts of a task. Raises TooLong, and ValueError for a measure or tokenizer that is not there."""
    if task.measure == "bleu":
        return _bleu(task)
    if task.measure == "response_match":
        return _rouge(task._replace(measure="rouge_1", tokenizer="unicode", stemmer=True))
    return _rouge(task)


def warm_up() -> None:
    """Import what nearly every run needs."""
    _rouge_tokenizer("unicode", stemmer=True)


def _rouge(task: TextTask) -> TextScore:
    if task.measure not in _ROUGE_TYPES:
        raise ValueError(f"there is no measure {task.measure!r}")
    tokenizer = _rouge_tokenizer(task.tokenizer or "unicode", stemmer=task.stemmer)
    candidate, reference = len(tokenizer.tokenize(task.candidate)), len(tokenizer.tokenize(task.reference))
    if task.measure == "rouge_2":
        candidate, reference = max(candidate - 1, 0), max(reference - 1, 0)
    if task.measure.startswith("rouge_l") and candidate * reference > _PAIRS_AT_MOST:
        raise TooLong(
            f"the texts are too long for {task.measure}: {candidate:,} and {reference:,} words, expected a product of "
            f"at most {_PAIRS_AT_MOST:,}"
        )
    rouge_type = _ROUGE_TYPES[task.measure]
    scorer = _rouge_scorer(rouge_type, tokenizer)
    value = scorer.score(task.reference, task.candidate)[rouge_type].fmeasure
    return TextScore(float(value), candidate, reference)


@cache
def _rouge_tokenizer(name: str, *, stemmer: bool) -> Any:
    _, tokenizers = import_rouge()
    default = tokenizers.DefaultTokenizer(use_stemmer=stemmer)
    if name == "rouge_score":
        return default
    if name == "unicode":
        return UnicodeTokenizer(default.tokenize)
    raise ValueError(f"there is no tokenizer {name!r} for ROUGE")


@cache
def _rouge_scorer(rouge_type: str, tokenizer: Any) -> Any:
    rouge_scorer, _ = import_rouge()
    return rouge_scorer.RougeScorer([rouge_type], tokenizer=tokenizer)


def _bleu(task: TextTask) -> TextScore:
    """sacrebleu's sentence BLEU (exponential smoothing), from 0 to 1. Units are the library's tokens."""
    tokenizer = task.tokenizer or "auto"
    candidate, reference = task.candidate, task.reference
    if tokenizer == "auto":
        candidate, reference = split_apart(candidate), split_apart(reference)
    bleu = _bleu_metric("13a" if tokenizer == "auto" else tokenizer, effective_order=task.effective_order)
    score = bleu.sentence_score(candidate, [reference])
    return TextScore(min(float(score.score) / 100.0, 1.0), score.sys_len, score.ref_len)


@cache
def _bleu_metric(tokenizer: str, *, effective_order: bool) -> Any:
    from sacrebleu.metrics.bleu import BLEU

    return BLEU(tokenize=tokenizer, effective_order=effective_order)
