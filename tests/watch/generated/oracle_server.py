"""Runs function agents the plainest way: each case in a fork of a Python that imported only the standard library.

Reads one job per line from stdin and answers each with one line. It is a separate program, so that no code of the
workbench is in the process: no instrumentation, no hooks, no loaders.
"""

import asyncio
import concurrent.futures.thread
import configparser  # noqa: F401 - generated agents import these; importing them in each fork is slow
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

MAX_PROCESSES = 2
STALL_SECONDS = 0.5
"""A process that does nothing for this time (seconds) is stalled. No agent here waits that long otherwise."""
_compiled: dict[tuple[str, bytes], Any] = {}
_own_modules: set[str] = set()


class Session:
    """The second argument of the agent function."""

    def __init__(self, session_input: dict[str, Any]) -> None:
        self.app_name = session_input.get("app_name") or "generated"
        self.user_id = session_input.get("user_id") or "test_user_id"
        self.session_id = None
        self.state = dict(session_input.get("state") or {})
        self.history: list[dict[str, Any]] = []


def run_case(job: dict[str, Any], case: dict[str, Any]) -> dict[str, Any]:
    """Return the answers of the agent to the turns of a case, and how it ended."""
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
            turn = {"prompt": prompt, "response": value["response"]}
            session.history.append({**turn, "predicted_trajectory": value["predicted_trajectory"]})
        found["state"] = session.state
    except BaseException as error:  # any exception of the agent
        text = str(error).strip()
        found["failure"] = f"{type(error).__qualname__}: {text}" if text else type(error).__qualname__
    found["modules"] = sorted(_find_module_files(job["root"]))
    return found


def _find_module_files(root: str) -> set[str]:
    new = [module for name, module in list(sys.modules.items()) if name not in _own_modules]
    files = (getattr(module, "__file__", None) for module in new)
    return {os.path.relpath(file, root) for file in files if file and file.startswith(root + os.sep)}


def fork_case(job: dict[str, Any], case: dict[str, Any]) -> tuple[int, int]:
    """Start a case in its own process. Return the process id, and the file descriptor of its answer."""
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


def wait_for_answer(process: int, reading: int) -> bool:
    """Wait until a process begins to answer, or ends. Return False if it is stalled."""
    before = None
    while not select.select([reading], [], [], STALL_SECONDS)[0]:
        now = read_thread_times(process)
        if now is not None and now == before:
            return False
        before = now
    return True


def read_thread_times(process: int) -> list[bytes] | None:
    """Return the CPU times of the threads of a process, or None if one of them is not asleep."""
    times = []
    for path in pathlib.Path(f"/proc/{process}/task").glob("*/stat"):
        with contextlib.suppress(OSError):  # the thread has ended
            state, *numbers = path.read_bytes().rpartition(b")")[2].split()
            if state != b"S":
                return None
            times.append(b" ".join(numbers[10:12]))
    return times


def compile_sources(root: str) -> None:
    """Compile all sources, so that not every child has to. The key is the path and the content."""
    for path in pathlib.Path(root).rglob("*.py"):
        key = (str(path), path.read_bytes())
        if key not in _compiled:
            with contextlib.suppress(SyntaxError, ValueError):  # the child that imports it reports the error
                _compiled[key] = _compile(None, key[1], key[0])


def _find_code(loader: SourceFileLoader, data: bytes, path: str, **options: Any) -> Any:
    return _compiled.get((path, data)) or _compile(loader, data, path, **options)


_compile: Any = SourceFileLoader.source_to_code


def run_job(job: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the answers for all cases of a job, in order."""
    compile_sources(job["root"])
    found: list[dict[str, Any]] = []
    waiting: list[tuple[int, int]] = []
    cases = list(job["cases"])
    while cases or waiting:
        while cases and len(waiting) < MAX_PROCESSES:
            waiting.append(fork_case(job, cases.pop(0)))
        process, reading = waiting.pop(0)
        has_answered = wait_for_answer(process, reading)
        if not has_answered:
            os.kill(process, signal.SIGKILL)
        with os.fdopen(reading, "rb") as stream:
            answer = stream.read()
        os.waitpid(process, 0)
        failure = "crash" if has_answered else "timeout"
        found.append(
            json.loads(answer) if answer else {"answers": [], "state": None, "failure": failure, "modules": []}
        )
    return found


def serve() -> None:
    """Answer jobs until the input ends."""
    answers = os.fdopen(os.dup(1), "w")
    null_device = os.open(os.devnull, os.O_RDWR)
    os.dup2(null_device, 1)  # discard the output of agents
    warnings.simplefilter("ignore")
    SourceFileLoader.source_to_code = _find_code  # type: ignore[method-assign, assignment]
    _own_modules.update(sys.modules)
    gc.freeze()
    for line in sys.stdin:
        answers.write(json.dumps(run_job(json.loads(line))) + "\n")
        answers.flush()


if __name__ == "__main__":
    concurrent.futures.thread.ThreadPoolExecutor  # noqa: B018 - import it before forking
    serve()
