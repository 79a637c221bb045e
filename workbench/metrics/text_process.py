"""The process that compares texts: it reads batches of comparisons and writes their scores.

The libraries rouge-score and sacrebleu take longer to import than most runs take. Therefore only this process imports
them. `workbench.metrics.text_worker` starts this file by its path, with `python -I`: no module in the user's folder or
environment can shadow ours. The arguments are folders, which are appended to the search path. This module imports only
the standard library, because the client imports it too.

Each input line is a JSON object with `id` and `tasks` (lists in the order of TextTask). The reply is a line with the
same `id` and `answers`: for each task `[value, candidate units, reference units]`, or the text of an error. A line that
is no request gets a reply with `id` null. The first output line says `ready`, after the libraries were imported. The
process ends at the end of its input.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.machinery
import json
import logging
import os
import sys
import unicodedata
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from types import ModuleType
from typing import IO, Any, Literal, NamedTuple

# Requests and replies.

Measure = Literal["response_match", "rouge_1", "rouge_2", "rouge_l", "rouge_l_sum", "bleu"]
"""What to compute. `response_match` is ADK's ROUGE-1 F1: its Unicode tokenizer with the Porter stemmer."""

ROUGE_TOKENIZERS = ("unicode", "rouge_score")
"""ADK's Unicode tokenizer (the default), or the library's own, which ignores all but ASCII letters and digits."""

BLEU_TOKENIZERS = ("auto", "13a", "intl", "char", "zh")
"""sacrebleu's tokenizers. `auto` (the default) is 13a, after characters of scripts without spaces were separated."""


class TextTask(NamedTuple):
    """One comparison. A measure ignores the options that it does not have."""

    measure: Measure
    candidate: str
    reference: str
    stemmer: bool = False
    tokenizer: str = ""  # "" is the measure's default
    effective_order: bool = True
    words: int = 2  # of rouge_2: how many words in a row are compared


class TextScore(NamedTuple):
    """The score, in [0, 1], and the number of words (rouge_2: of groups of words) in each text."""

    value: float
    candidate_units: int
    reference_units: int


# Import of rouge-score without most of nltk.
#
# rouge-score needs one class of nltk, the Porter stemmer. The `__init__` of nltk imports all of nltk and, if installed,
# scipy, scikit-learn and pandas: seconds, and more than 100 MB. Here the `__init__` of `nltk` and `nltk.stem` does not
# run, and the optional dependencies of nltk are hidden. If that import fails, nltk is imported completely.

_BARE = frozenset({"nltk", "nltk.stem"})
_NOT_NEEDED = frozenset({"scipy", "sklearn", "pandas", "matplotlib", "IPython", "tkinter", "pyarrow", "torch"})


class _EmptyLoader:
    """Loads a package without running its `__init__`."""

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:  # noqa: ARG002
        return None

    def exec_module(self, module: ModuleType) -> None:
        """Run nothing."""


class _SlimFinder:
    """Finds packages without their `__init__`, and hides optional dependencies.

    With `bare` off, it only hides: nltk is then imported completely.
    """

    def __init__(self) -> None:
        self.bare = True

    def find_spec(
        self,
        name: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> importlib.machinery.ModuleSpec | None:
        if name in _NOT_NEEDED:
            raise ModuleNotFoundError(f"{name} is not needed to compare texts", name=name)
        if not self.bare or name not in _BARE:
            return None
        full_spec = importlib.machinery.PathFinder.find_spec(name, path)
        if full_spec is None:
            return None
        loader: Any = _EmptyLoader()
        spec = importlib.machinery.ModuleSpec(name, loader, origin=full_spec.origin, is_package=True)
        spec.submodule_search_locations = full_spec.submodule_search_locations
        return spec


def import_rouge() -> tuple[ModuleType, ModuleType]:
    """Import `rouge_score.rouge_scorer` and `rouge_score.tokenizers`. Raises ImportError if one is missing."""
    finder = _SlimFinder()
    sys.meta_path.insert(0, finder)
    try:
        try:
            return _import_modules()
        except (ImportError, AttributeError):
            finder.bare = False
            _forget("nltk", "rouge_score")
            return _import_modules()
    finally:
        sys.meta_path.remove(finder)


def _import_modules() -> tuple[ModuleType, ModuleType]:
    return importlib.import_module("rouge_score.rouge_scorer"), importlib.import_module("rouge_score.tokenizers")


def _forget(*packages: str) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] in packages]:
        del sys.modules[name]


# Unicode tokenizer, by the rules of google-adk 2.13 (`evaluation/final_response_match_v1.py`).
#
# The text is normalised (NFKC) and lower-cased. A Chinese, Japanese or Korean character is a word; so is a Thai, Lao,
# Khmer or Myanmar character with the marks that follow it. In other scripts a word is a run of letters, digits and
# marks. The tokenizer of rouge-score splits, and perhaps stems, words of ASCII characters.

_OWN_WORD = (
    range(0x4E00, 0xA000),  # ideographs
    range(0x3040, 0x30A0),  # hiragana
    range(0x30A0, 0x3100),  # katakana
    range(0xAC00, 0xD7B0),  # hangul syllables
)
_STARTS_WORD = (
    range(0x0E00, 0x0E80),  # Thai
    range(0x0E80, 0x0F00),  # Lao
    range(0x1780, 0x1800),  # Khmer
    range(0x1000, 0x10A0),  # Myanmar
)


def _separate_character(character: str) -> str:
    """Add blanks that make the character a word of its own, if its script has no spaces."""
    code = ord(character)
    if any(code in block for block in _OWN_WORD):
        return f" {character} "
    if any(code in block for block in _STARTS_WORD) and not _is_mark(character):
        return f" {character}"
    return character


def _keep_word_character(character: str) -> str:
    """Do as `_separate_character`, but return a blank for a character that is no part of a word."""
    spaced = _separate_character(character)
    if spaced != character or character.isalnum() or _is_mark(character):
        return spaced
    return " "


def _is_mark(character: str) -> bool:
    return unicodedata.category(character).startswith("M")


class _Table(dict[int, str]):
    """A table for `str.translate`, filled as characters occur."""

    def __init__(self, replace: Callable[[str], str]) -> None:
        super().__init__()
        self._replace = replace

    def __missing__(self, code: int) -> str:
        self[code] = replacement = self._replace(chr(code))
        return replacement


_SEPARATED, _WORDS_ONLY = _Table(_separate_character), _Table(_keep_word_character)


class UnicodeTokenizer:
    """A tokenizer for rouge-score. `ascii_words` splits, and perhaps stems, a word of ASCII characters."""

    def __init__(self, ascii_words: Callable[[str], list[str]]) -> None:
        self._ascii_words = lru_cache(maxsize=65_536)(lambda word: tuple(ascii_words(word)))

    def tokenize(self, text: str) -> list[str]:
        """Return the words of a text, in order."""
        words: list[str] = []
        for word in unicodedata.normalize("NFKC", text).lower().translate(_WORDS_ONLY).split():
            if word.isascii():
                words.extend(self._ascii_words(word))
            else:
                words.append(word)
        return words


def separate_characters(text: str) -> str:
    """Put blanks around the characters of scripts without spaces. Other text is unchanged."""
    return text.translate(_SEPARATED)


# ROUGE and BLEU.

_ROUGE_TYPES = {"rouge_1": "rouge1", "rouge_2": "rouge2", "rouge_l": "rougeL", "rouge_l_sum": "rougeLsum"}
# The longest common subsequence takes time and memory for each pair of words: for this many about 5 s and 300 MB.
_PAIRS_AT_MOST = 20_000_000


class TooLong(ValueError):
    """The comparison would take minutes and gigabytes."""


def compute(task: TextTask) -> TextScore:
    """Compare the two texts of a task. Raises TooLong, and ValueError for an unknown measure or tokenizer."""
    if task.measure == "bleu":
        return _bleu(task)
    if task.measure == "response_match":
        return _rouge(task._replace(measure="rouge_1", tokenizer="unicode", stemmer=True))
    return _rouge(task)


def import_libraries() -> None:
    """Import the libraries that nearly every run needs."""
    _rouge_tokenizer("unicode", stemmer=True)


def _rouge(task: TextTask) -> TextScore:
    if task.measure not in _ROUGE_TYPES:
        raise ValueError(f"there is no measure {task.measure!r}")
    tokenizer = _rouge_tokenizer(task.tokenizer or "unicode", stemmer=task.stemmer)
    candidate, reference = len(tokenizer.tokenize(task.candidate)), len(tokenizer.tokenize(task.reference))
    if task.measure == "rouge_2":
        more = task.words - 1
        candidate, reference = max(candidate - more, 0), max(reference - more, 0)
    if task.measure.startswith("rouge_l") and candidate * reference > _PAIRS_AT_MOST:
        raise TooLong(
            f"the texts are too long for {task.measure}: {candidate:,} and {reference:,} words, expected a product of "
            f"at most {_PAIRS_AT_MOST:,}"
        )
    rouge_type = f"rouge{task.words}" if task.measure == "rouge_2" else _ROUGE_TYPES[task.measure]
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
    """Compute sacrebleu's sentence BLEU (exponential smoothing), in [0, 1]. Units are the tokens of the library."""
    tokenizer = task.tokenizer or "auto"
    candidate, reference = task.candidate, task.reference
    if tokenizer == "auto":
        candidate, reference = separate_characters(candidate), separate_characters(reference)
    bleu = _bleu_metric("13a" if tokenizer == "auto" else tokenizer, effective_order=task.effective_order)
    score = bleu.sentence_score(candidate, [reference])
    return TextScore(min(float(score.score) / 100.0, 1.0), score.sys_len, score.ref_len)


@cache
def _bleu_metric(tokenizer: str, *, effective_order: bool) -> Any:
    from sacrebleu.metrics.bleu import BLEU

    return BLEU(tokenize=tokenizer, effective_order=effective_order)


# The loop of the process.


def main() -> None:
    """Score batches until the input ends."""
    sys.path.extend(folder for folder in sys.argv[1:] if folder not in sys.path)
    requests, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # output of a library must not mix with the answers
    logging.disable(logging.WARNING)  # libraries warn for each text
    with contextlib.suppress(ImportError):  # each task that needs a missing library reports it
        import_libraries()
    _write(answers, {"id": None, "ready": True})
    for line in requests:
        _write(answers, _answer(line))


def _write(answers: IO[bytes], message: dict[str, Any]) -> None:
    answers.write(json.dumps(message).encode() + b"\n")
    answers.flush()


def _answer(line: bytes) -> dict[str, Any]:
    try:
        request = json.loads(line)
        identity, tasks = request["id"], [TextTask(*task) for task in request["tasks"]]
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        return {"id": None, "answers": [], "error": f"no request: {error}"}
    return {"id": identity, "answers": [_compute_or_report(task) for task in tasks]}


def _compute_or_report(task: TextTask) -> list[float] | str:
    try:
        return list(compute(task))
    except Exception as error:  # a library that fails on a text must cost only this comparison
        return f"{type(error).__name__}: {error}"[:500]


if __name__ == "__main__":
    main()
