"""The helper process: a batch of comparisons on each line of its input, their scores on a line of its output.

Run by its path with `python -I`, so that no module of the user's folder or environment can take the place of another;
the folders given as arguments are added at the end of the search path. A line is a JSON object with `id` and `tasks`
(lists in the order of TextTask); the answer has the same `id` and `answers`, for each task `[value, candidate units,
reference units]` or the text of what went wrong. What is no such line is answered with `id` null. The first line says
`ready`, once the libraries are there. Ends when its input ends.
"""

from __future__ import annotations

import sys

sys.path.extend(folder for folder in sys.argv[1:] if folder not in sys.path)

import contextlib
import json
import logging
import os
from typing import IO, Any

from workbench.metrics.text_helper.measures import compute, warm_up
from workbench.metrics.text_helper.tasks import TextTask


def main() -> None:
    """Answer until the input ends."""
    requests, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints must not come between the answers
    logging.disable(logging.WARNING)  # libraries warn for each text
    with contextlib.suppress(ImportError):  # each task that needs what is missing says so
        warm_up()
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
    return {"id": identity, "answers": [_computed(task) for task in tasks]}


def _computed(task: TextTask) -> list[float] | str:
    try:
        return list(compute(task))
    except Exception as error:  # libraries meet text from outside; whatever they make of it costs one comparison
        return f"{type(error).__name__}: {error}"[:500]


if __name__ == "__main__":
    main()
