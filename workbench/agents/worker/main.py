"""A worker process from its first line to its last: reads what it is to be from stdin, then is that."""

from __future__ import annotations

import json
import os
import sys

from . import loading
from .recording import hooks
from .recording.recorder import Recorder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List


def run(path: List[str]) -> None:
    """Be what the engine asks for: a `zygote`, which forks a child for each case, or a `shared` process for many.

    `path` is what `sys.path` is to be when libraries and the agent are imported.
    """
    loading.set_path(path)
    loading.read_from_source()
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


def _record(target_path: str, path: List[str]) -> None:
    recorder = Recorder(target_path)
    recorder.begin(path)
    hooks.install(recorder)


def _read_config() -> Dict[str, Any]:
    """One JSON object on stdin, which then is empty for good. (Neither arguments nor environment: others see those.)"""
    chunks = []
    while chunk := os.read(0, 1 << 16):
        chunks.append(chunk)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    config: Dict[str, Any] = json.loads(b"".join(chunks))
    return config
