"""The variables with which models are asked for a target."""

from __future__ import annotations

import os
from collections.abc import Mapping

from workbench.agents.worker import dotenv
from workbench.model.target import Target


def environment_of(target: Target) -> Mapping[str, str]:
    """The variables that models are asked with: ours, and those of the target's `.env` that ours do not set."""
    files = [] if target.env_file is None else [str(target.env_file)]
    return dotenv.effective(files, os.environ)
