"""What the helper is asked and what it answers. Standard library only: both sides import this."""

from __future__ import annotations

from typing import Literal, NamedTuple

Measure = Literal["response_match", "rouge_1", "rouge_2", "rouge_l", "rouge_l_sum", "bleu"]
"""What to compute. `response_match` is ADK's ROUGE-1 F1: its Unicode tokenizer with the Porter stemmer."""

RougeTokenizer = Literal["unicode", "rouge_score"]
"""ADK's Unicode tokenizer, or the library's own, which knows nothing but ASCII letters and digits."""

BleuTokenizer = Literal["auto", "13a", "intl", "char", "zh"]
"""sacrebleu's tokenizers; `auto` is 13a with the characters of scripts without spaces split apart first."""


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
