"""Which versions a run was made with: what can change a score without any change in the project."""

from __future__ import annotations

import platform
from functools import cache
from importlib.metadata import PackageNotFoundError, version

import workbench

# What computes scores, and the framework where agents run under our own interpreter.
_PACKAGES = ("google-adk", "rouge-score", "sacrebleu")


@cache
def versions() -> dict[str, str]:
    """By name: workbench, python, and those of the packages above that are installed."""
    found = {"workbench": workbench.__version__, "python": platform.python_version()}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
