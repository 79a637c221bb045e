"""Importing rouge-score without what it pulls in for nothing.

rouge-score needs one class of nltk, the Porter stemmer, and importing that runs nltk's `__init__`, which imports every
part of nltk and with it scipy, scikit-learn, pandas and more where they are installed: seconds and more than a hundred
megabytes. Here `nltk` and `nltk.stem` become packages whose `__init__` is not run, and what nltk treats as optional is
not found. Should an nltk come that cannot be imported that way, it is imported whole.
"""

from __future__ import annotations

import importlib
import importlib.machinery
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any

_BARE = frozenset({"nltk", "nltk.stem"})
_NOT_NEEDED = frozenset({"scipy", "sklearn", "pandas", "matplotlib", "IPython", "tkinter", "pyarrow", "torch"})


class _EmptyLoader:
    """Makes a package of a folder without running its `__init__`."""

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:  # noqa: ARG002
        return None

    def exec_module(self, module: ModuleType) -> None:
        """Nothing is run."""


class _SlimFinder:
    """Finds bare packages, and does not find what is not needed. `bare` is switched off for the whole import."""

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
        found = importlib.machinery.PathFinder.find_spec(name, path)
        if found is None:
            return None
        loader: Any = _EmptyLoader()
        spec = importlib.machinery.ModuleSpec(name, loader, origin=found.origin, is_package=True)
        spec.submodule_search_locations = found.submodule_search_locations
        return spec


def import_rouge() -> tuple[ModuleType, ModuleType]:
    """The modules `rouge_score.rouge_scorer` and `.tokenizers`. Raises ImportError where they are missing."""
    finder = _SlimFinder()
    sys.meta_path.insert(0, finder)
    try:
        try:
            return _import_both()
        except (ImportError, AttributeError):
            finder.bare = False
            _forget("nltk", "rouge_score")
            return _import_both()
    finally:
        sys.meta_path.remove(finder)


def _import_both() -> tuple[ModuleType, ModuleType]:
    return importlib.import_module("rouge_score.rouge_scorer"), importlib.import_module("rouge_score.tokenizers")


def _forget(*packages: str) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] in packages]:
        del sys.modules[name]
