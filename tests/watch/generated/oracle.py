"""The oracle: a fresh run of every case, without any code of the workbench between Python and the agent.

Every case runs in a process that has imported only the standard library, on a copy of the project, so that files
written by agents change nothing. Only the metrics are those of the workbench.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Coroutine, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any, Self, cast

from workbench.agents.worker import dotenv
from workbench.metrics.case_view import JudgedCase
from workbench.metrics.evaluate import MetricServices, judge_case
from workbench.metrics.registry import prepare
from workbench.model.criteria import EvalConfig
from workbench.model.evalset import EvalCase, Invocation
from workbench.model.identity import CaseKey
from workbench.model.results import (
    CaseResult,
    Execution,
    Failure,
    FailureKind,
    MetricResult,
    TurnResult,
    decide_case_status,
)
from workbench.store.evalsets.config_files import load_config

from .outcomes import Outcome, make_outcome, mask_paths
from .packages import CRITERIA, ENVIRONMENT, EVAL_SET, LIBRARIES, TARGET, TIMED

_SERVER = Path(__file__).with_name("oracle_server.py")
_IGNORED_FILES = shutil.ignore_patterns("__pycache__", ".workbench", ".adk", ".git")
_FAILURE_KINDS = {"crash": FailureKind.CRASH, "timeout": FailureKind.TIMEOUT}


@contextlib.contextmanager
def quick_folder() -> Iterator[Path]:
    """Make a folder for copies of projects, in memory if possible: disks are slower than the agents."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as folder:
        yield Path(folder)


class Oracle:
    """Runs projects fresh, in forks of one process. `scratch` is the folder for its copies.

    With `remembers` it does not repeat a case on unchanged files. Generated agents are deterministic, so this is safe.
    """

    def __init__(self, scratch: Path, *, remembers: bool = False) -> None:
        self._scratch = scratch
        self._remembers = remembers
        self._result_cache: dict[tuple[str, str], dict[str, Any]] = {}
        self._numbers = itertools.count()
        self._thread = ThreadPoolExecutor(max_workers=1)
        self.modules: Mapping[str, frozenset[str]] = {}
        """For each case of the last project, the files of the modules that it imported."""
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-B", str(_SERVER)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8",
        )  # fmt: skip

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the process."""
        self._thread.shutdown()
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(timeout=30)
        self._process.stdout.close()

    def run(self, project: Path) -> dict[str, Outcome]:
        """Return the current outcome of every case of a project, by its id."""
        return self.begin(project).result()

    def begin(self, project: Path) -> Future[dict[str, Outcome]]:
        """Start a run on a copy. The project may change as soon as this returns."""
        copy = self._scratch / f"state{next(self._numbers) % 2}"
        shutil.copytree(project, copy, symlinks=True, ignore=_IGNORED_FILES, copy_function=_copy_file)
        return self._thread.submit(self._run_copy, copy)

    def _run_copy(self, copy: Path) -> dict[str, Outcome]:
        try:
            return self._run(copy.resolve())
        finally:
            shutil.rmtree(copy, ignore_errors=True)

    def _run(self, root: Path) -> dict[str, Outcome]:
        data = json.loads((root / EVAL_SET).read_text("utf-8"))
        cases = [EvalCase.model_validate(case) for case in data["eval_cases"]]
        config = load_config(root / CRITERIA)
        results = self._find_results(root, [_make_job_case(case) for case in cases])
        self.modules = {case.eval_id: frozenset(raw["modules"]) for case, raw in zip(cases, results, strict=True)}
        return {
            case.eval_id: _judge(case, raw, config=config, root=root) for case, raw in zip(cases, results, strict=True)
        }

    def _find_results(self, root: Path, cases: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return what the agent does in each case, from the cache if possible."""
        files = _hash_project(root) if self._remembers else ""
        names = [(files, json.dumps(case, sort_keys=True)) for case in cases]
        results = self._result_cache if self._remembers else {}
        missing = {name: case for name, case in zip(names, cases, strict=True) if name not in results}
        if missing:
            environment = _read_environment(root)
            job: dict[str, Any] = {
                "root": str(root),
                "target": TARGET,
                "environment": environment,
                "libraries": str(root / LIBRARIES),
            }
            job["cases"] = [*missing.values()]
            for name, result in zip(missing, self._ask(job), strict=True):
                if result["failure"] is not None:
                    result["failure"] = mask_paths(result["failure"], root)
                results[name] = result
        return [results[name] for name in names]

    def _ask(self, job: dict[str, Any]) -> list[dict[str, Any]]:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(job) + "\n")
        self._process.stdin.flush()
        answer: list[dict[str, Any]] = json.loads(self._process.stdout.readline())
        return answer


def _copy_file(source: str, target: str) -> None:
    """Copy a file with its time and mode, unless an agent has just removed it."""
    with contextlib.suppress(FileNotFoundError):
        shutil.copyfile(source, target)
        shutil.copystat(source, target)


def _hash_project(root: Path) -> str:
    """Hash everything that agents can see in a project, without the eval set and the criteria."""
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*")):
        name = path.relative_to(root).as_posix()
        if name not in (EVAL_SET, CRITERIA):
            digest.update(f"{name}\0{path.readlink() if path.is_symlink() else ''}\0".encode())
            if name.startswith(TIMED):
                digest.update(f"{path.stat().st_mtime_ns}\0{path.stat().st_mode}".encode())
            data = path.read_bytes() if path.is_file() else b""
            digest.update(f"{len(data) if path.is_file() else 'folder'}\0".encode() + data)
    return digest.hexdigest()


def _read_environment(root: Path) -> dict[str, str]:
    """Return the variables of the agent: those of this process, then the other ones of `.env`."""
    environment = {**os.environ, **ENVIRONMENT}
    file = root / ".env"
    if file.is_file():
        text = file.read_text("utf-8-sig", errors="surrogateescape")
        environment = {**dotenv.parse(text, environment), **environment}
    return environment


def _make_job_case(case: EvalCase) -> dict[str, Any]:
    session_input = case.session_input
    return {
        "prompts": [turn.user_content.text() for turn in case.conversation or ()],
        "session_input": {} if session_input is None else session_input.model_dump(mode="json"),
    }


def _judge(case: EvalCase, raw: dict[str, Any], *, config: EvalConfig, root: Path) -> Outcome:
    """Judge by the criteria what happened in a case."""
    turns = tuple(
        TurnResult(invocation=_make_invocation(turn, answer), duration_seconds=0.0)
        for turn, answer in zip(case.conversation or (), raw["answers"], strict=False)
    )
    message = raw["failure"]
    kind = _FAILURE_KINDS.get(message, FailureKind.AGENT)
    failure = None if message is None else Failure(kind=kind, message=message)
    execution = Execution(turns=turns, final_state=raw["state"], failure=failure)
    subject = JudgedCase(case=case, expected=case.conversation or (), execution=execution)
    no_services = cast(MetricServices, None)  # the metrics of generated criteria need none
    metrics = _run_without_waiting(judge_case(subject, prepare(config), no_services))
    result = CaseResult(
        case=CaseKey(target="generated", eval_set=EVAL_SET, eval_id=case.eval_id),
        eval_set_id="set",
        status=decide_case_status(metrics, failure=failure),
        failure=failure,
        metrics=metrics,
        execution=execution,
    )
    return make_outcome(result, root=root, criteria=[criterion.metric for criterion in config.criteria])


def _run_without_waiting(coroutine: Coroutine[Any, Any, tuple[MetricResult, ...]]) -> tuple[MetricResult, ...]:
    """Return the result of a coroutine that never waits."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        return cast(tuple[MetricResult, ...], end.value)
    raise AssertionError("a metric of a generated package waits for something")


def _make_invocation(turn: Invocation, answer: dict[str, Any]) -> Invocation:
    calls = [{"name": name, "args": args} for name, args in answer["calls"]]
    return Invocation.model_validate(
        {
            "user_content": turn.user_content.model_dump(mode="json", exclude_none=True),
            "final_response": {"role": "model", "parts": [{"text": answer["response"]}]},
            "intermediate_data": {"tool_uses": calls, "tool_responses": [], "intermediate_responses": []},
        }
    )
