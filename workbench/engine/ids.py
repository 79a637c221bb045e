"""Names of runs: they sort by time, and are short enough to type."""

from __future__ import annotations

import secrets
from datetime import datetime


def new_run_id(now: datetime) -> str:
    """Such as `20261121-140207-5f3a`: the local second, and enough chance for two runs in one second."""
    return f"{now:%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"
