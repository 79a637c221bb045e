"""What the helper is asked and what it answers. Standard library only: both sides import this."""

from __future__ import annotations

from typing import Literal, NamedTuple

Measure = Literal["response_match", "rouge_1", "rouge_2", "rouge_l", "rouge_l_sum", "bleu"]
"""What to compute. `response_match` is ADK's ROUGE-1 F1: its Unicode tokenizer with the Porter stemmer."""

ROUGE_TOKENIZERS = ("unicode", "rouge_score")
"""ADK's Unicode tokenizer (the default), or the library's own, which knows nothing but ASCII letters and digits."""

BLEU_TOKENIZERS = ("auto", "13a", "intl", "char", "zh")
"""sacrebleu's tokenizers; `auto` (the default) is 13a after splitting the characters of scripts without spaces."""


class TextTask(NamedTuple):
    """One comparison. Options that the measure does not have are not looked at."""

    measure: Measure
    candidate: str
    reference: str
    stemmer: bool = False
    tokenizer: str = ""  # "" is the measure's default
    effective_order: bool = True


class TextScore(NamedTuple):
    """The score, in [0, 1], and how many words (n-grams for rouge_2) each text was found to have."""

    value: float
    candidate_units: int
    reference_units: int
