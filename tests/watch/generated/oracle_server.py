"""Runs function agents the plainest way: each case in a fork of a Python that imported nothing but its own library.

Reads one job a line from stdin and answers each with one line. A program of its own, so that nothing of the workbench
is in the process: no instrumentation, no hooks, no loaders.
"""

import asyncio
import concurrent.futures.thread
import configparser  # noqa: F401 - what generated agents import, and what costs time when each fork does it
import contextlib
import csv  # noqa: F401
import dataclasses  # noqa: F401
import enum  # noqa: F401
import functools  # noqa: F401
import gc
import glob  # noqa: F401
import importlib.util
import inspect
import json
import os
import pathlib
import pkgutil  # noqa: F401
import select
import signal
import sys
import tomllib  # noqa: F401
import warnings
import zlib  # noqa: F401
from importlib.machinery import SourceFileLoader
from typing import Any

AT_ONCE = 2
WAITS = 0.5
"""Seconds that a process does nothing at all, after which it waits for ever: no agent here waits for less than that."""
_compiled: dict[tuple[str, bytes], Any] = {}
_own_modules: set[str] = set()


class Session:
    """What the agent gets as its second argument."""

    def __init__(self, given: dict[str, Any]) -> None:
        self.app_name = given.get("app_name") or "generated"
        self.user_id = given.get("user_id") or "test_user_id"
        self.session_id = None
        self.state = dict(given.get("state") or {})
        self.history: list[dict[str, Any]] = []


def run_case(job: dict[str, Any], case: dict[str, Any]) -> dict[str, Any]:
    """The answers of the agent to the turns of a case, and how it ended."""
    answers: list[dict[str, Any]] = []
    found: dict[str, Any] = {"answers": answers, "state": None, "failure": None}
    try:
        module, _, name = job["target"].partition(":")
        function = getattr(importlib.import_module(module), name)
        session = Session(case["session_input"])
        loop = asyncio.new_event_loop() if inspect.iscoroutinefunction(function) else None
        for prompt in case["prompts"]:
            value = function(prompt, session)
            if loop is not None:
                value = loop.run_until_complete(value)
            calls = [[call["tool_name"], call["tool_input"]] for call in value["predicted_trajectory"]]
            answers.append({"response": value["response"], "calls": calls})
            told = {"prompt": prompt, "response": value["response"]}
            session.history.append({**told, "predicted_trajectory": value["predicted_trajectory"]})
        found["state"] = session.state
    except BaseException as error:  # the agent's, whatever it is
        text = str(error).strip()
        found["failure"] = f"{type(error).__qualname__}: {text}" if text else type(error).__qualname__
    found["modules"] = sorted(_files_below(job["root"]))
    return found


def _files_below(root: str) -> set[str]:
    new = [module for name, module in list(sys.modules.items()) if name not in _own_modules]
    files = (getattr(module, "__file__", None) for module in new)
    return {os.path.relpath(file, root) for file in files if file and file.startswith(root + os.sep)}


def fork_case(job: dict[str, Any], case: dict[str, Any]) -> tuple[int, int]:
    """Start a case in a process of its own; gives its id, and where its answer can be read."""
    reading, writing = os.pipe()
    process = os.fork()
    if process:
        os.close(writing)
        return process, reading
    try:
        os.close(reading)
        os.environ.clear()
        os.environ.update(job["environment"])
        os.chdir(job["root"])
        sys.path[:0] = [job["root"], job["libraries"]]
        answer = json.dumps(run_case(job, case)).encode()
        while answer:
            answer = answer[os.write(writing, answer) :]
    finally:
        os._exit(0)


def ends(process: int, reading: int) -> bool:
    """Wait until a process begins to answer, or ends; False where it does nothing any more, however busy others are."""
    before = None
    while not select.select([reading], [], [], WAITS)[0]:
        now = done_by(process)
        if now is not None and now == before:
            return False
        before = now
    return True


def done_by(process: int) -> list[bytes] | None:
    """What the threads of a process have done so far; None while one of them wants to do more."""
    done = []
    for path in pathlib.Path(f"/proc/{process}/task").glob("*/stat"):
        with contextlib.suppress(OSError):  # the thread has ended
            state, *numbers = path.read_bytes().rpartition(b")")[2].split()
            if state != b"S":
                return None
            done.append(b" ".join(numbers[10:12]))
    return done


def compile_once(root: str) -> None:
    """Compile what children will import, so that not each of them does: equal bytes at the same path, equal code."""
    for path in pathlib.Path(root).rglob("*.py"):
        key = (str(path), path.read_bytes())
        if key not in _compiled:
            with contextlib.suppress(SyntaxError, ValueError):  # the child that imports it says so
                _compiled[key] = _compile(None, key[1], key[0])


def _known_code(loader: SourceFileLoader, data: bytes, path: str, **options: Any) -> Any:
    return _compiled.get((path, data)) or _compile(loader, data, path, **options)


_compile: Any = SourceFileLoader.source_to_code


def run_job(job: dict[str, Any]) -> list[dict[str, Any]]:
    """The answers for all cases of a job, in their order."""
    compile_once(job["root"])
    found: list[dict[str, Any]] = []
    waiting: list[tuple[int, int]] = []
    cases = list(job["cases"])
    while cases or waiting:
        while cases and len(waiting) < AT_ONCE:
            waiting.append(fork_case(job, cases.pop(0)))
        process, reading = waiting.pop(0)
        ended = ends(process, reading)
        if not ended:
            os.kill(process, signal.SIGKILL)
        with os.fdopen(reading, "rb") as stream:
            answer = stream.read()
        os.waitpid(process, 0)
        failure = "crash" if ended else "timeout"
        found.append(
            json.loads(answer) if answer else {"answers": [], "state": None, "failure": failure, "modules": []}
        )
    return found


def serve() -> None:
    """Answer jobs until there are no more."""
    answers = os.fdopen(os.dup(1), "w")
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 1)  # what agents print is not ours
    warnings.simplefilter("ignore")
    SourceFileLoader.source_to_code = _known_code  # type: ignore[method-assign, assignment]
    _own_modules.update(sys.modules)
    gc.freeze()
    for line in sys.stdin:
        answers.write(json.dumps(run_job(json.loads(line))) + "\n")
        answers.flush()


if __name__ == "__main__":
    concurrent.futures.thread.ThreadPoolExecutor  # noqa: B018 - imported for the forks
    serve()
