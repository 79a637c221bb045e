"""Start of a worker process: reads its configuration from stdin and runs its role."""

from __future__ import annotations

import json
import os
import sys

from . import loading
from .recording import hooks
from .recording.recorder import Recorder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def run(path: list[str]) -> None:
    """Run the role that the engine assigns: `zygote` forks a child for each case, `shared` serves many cases.

    `path` is the `sys.path` for imports of libraries and the agent.
    """
    loading.save_path(path)
    loading.install_source_loader()
    config = _read_config()
    _record(config["target"]["path"], path)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(encoding="utf-8", errors="backslashreplace", line_buffering=True)  # type: ignore[union-attr]
    if config["role"] == "zygote":
        from . import zygote

        zygote.run(config)
    else:
        from . import shared

        shared.run_spawned(config)


def _record(target_path: str, path: list[str]) -> None:
    recorder = Recorder(target_path)
    recorder.begin(path)
    hooks.install(recorder)


def _read_config() -> dict[str, Any]:
    """Read one JSON object from stdin, and leave stdin empty. Others could see arguments and environment."""
    chunks = []
    while chunk := os.read(0, 1 << 16):
        chunks.append(chunk)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    config: dict[str, Any] = json.loads(b"".join(chunks))
    return config
