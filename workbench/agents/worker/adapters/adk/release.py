"""Which google-adk there is: 1.18 or newer. What the releases have under different names is here."""

from __future__ import annotations

import importlib.metadata
import sys
from typing import Any

from ..base import LoadError, not_installed

_OLDEST = (1, 18)


def require_adk() -> None:
    """Import what every session needs. Raises LoadError where google-adk is missing or too old."""
    try:
        found = importlib.metadata.version("google-adk")
    except importlib.metadata.PackageNotFoundError:
        found = None
    problem = None if found is None else wrong_version(found)
    if problem is not None:
        raise LoadError(f"{problem}; it is what this interpreter has: {sys.executable}")
    try:
        from google.adk.runners import Runner  # noqa: F401
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] != "google":
            raise
        if found is None:
            raise not_installed("google-adk", extra="adk") from None
        raise LoadError(
            f"google-adk {found} is installed for this interpreter ({sys.executable}), but {error.name} is missing: "
            f"install it again there (pip install --force-reinstall google-adk)"
        ) from None
    agent_type()  # and what a first run of 2.x would import late, as time of the first turn


def wrong_version(found: str) -> str | None:
    """Why a version of google-adk cannot be used; None where it can."""
    parts = found.split(".")[:2]
    if not all(part.isdecimal() for part in parts) or tuple(map(int, parts)) >= _OLDEST:
        return None
    return f"google-adk {found} is too old, expected {_OLDEST[0]}.{_OLDEST[1]} or newer: pip install -U google-adk"


def agent_type() -> Any:
    """What every agent is: a node of a workflow from 2.0 on, a BaseAgent before."""
    try:
        from google.adk.workflow import BaseNode, Workflow  # noqa: F401 - with it most of the rest
    except ModuleNotFoundError:
        from google.adk.agents import BaseAgent

        return BaseAgent
    return BaseNode
