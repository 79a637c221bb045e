"""The truth: what a fresh run of every case gives, with nothing of the workbench between Python and the agent.

Every case runs in a process that has imported only Python's own library, on a copy of the project, so that what agents
write changes nothing. Only the judging is the workbench's.
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

from .outcomes import Outcome, outcome_of, without_root
from .packages import CRITERIA, ENVIRONMENT, EVAL_SET, LIBRARIES, TARGET, TIMED

_SERVER = Path(__file__).with_name("oracle_server.py")
_LEFT_OUT = shutil.ignore_patterns("__pycache__", ".workbench", ".adk", ".git")
_NO_END = {"crash": FailureKind.CRASH, "timeout": FailureKind.TIMEOUT}


@contextlib.contextmanager
def quick_folder() -> Iterator[Path]:
    """A folder for copies of projects: in memory where there is such a place, as disks take longer than agents do."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as folder:
        yield Path(folder)


class Oracle:
    """Runs projects fresh. Keeps one process that only ever forks; `scratch` is a folder for its copies.

    With `remembers` it does not run again what it has run on the very same files: what agents do twice must be the
    same then, as it is for what is generated.
    """

    def __init__(self, scratch: Path, *, remembers: bool = False) -> None:
        self._scratch = scratch
        self._remembers = remembers
        self._remembered: dict[tuple[str, str], dict[str, Any]] = {}
        self._numbers = itertools.count()
        self._thread = ThreadPoolExecutor(max_workers=1)
        self.modules: Mapping[str, frozenset[str]] = {}
        """For each case of the last project that was run, the files of the modules it had imported when it ended."""
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
        """What every case of a project gives as it is now, by its id."""
        return self.begin(project).result()

    def begin(self, project: Path) -> Future[dict[str, Outcome]]:
        """The same, found out while others use the project: it may be changed as soon as this returns."""
        copy = self._scratch / f"state{next(self._numbers) % 2}"
        shutil.copytree(project, copy, symlinks=True, ignore=_LEFT_OUT, copy_function=_copy)
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
        found = self._found(root, [_told(case) for case in cases])
        self.modules = {case.eval_id: frozenset(raw["modules"]) for case, raw in zip(cases, found, strict=True)}
        return {
            case.eval_id: _judged(case, raw, config=config, root=root) for case, raw in zip(cases, found, strict=True)
        }

    def _found(self, root: Path, cases: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """What the agent does in each case."""
        files = _digest(root) if self._remembers else ""
        names = [(files, json.dumps(case, sort_keys=True)) for case in cases]
        known = self._remembered if self._remembers else {}
        missing = {name: case for name, case in zip(names, cases, strict=True) if name not in known}
        if missing:
            environment = _environment(root)
            job: dict[str, Any] = {
                "root": str(root),
                "target": TARGET,
                "environment": environment,
                "libraries": str(root / LIBRARIES),
            }
            job["cases"] = [*missing.values()]
            for name, found in zip(missing, self._ask(job), strict=True):
                if found["failure"] is not None:
                    found["failure"] = without_root(found["failure"], root)
                known[name] = found
        return [known[name] for name in names]

    def _ask(self, job: dict[str, Any]) -> list[dict[str, Any]]:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(job) + "\n")
        self._process.stdin.flush()
        answer: list[dict[str, Any]] = json.loads(self._process.stdout.readline())
        return answer


def _copy(source: str, target: str) -> None:
    """Copy a file with its time and mode. One that an agent has removed meanwhile is not there."""
    with contextlib.suppress(FileNotFoundError):
        shutil.copyfile(source, target)
        shutil.copystat(source, target)


def _digest(root: Path) -> str:
    """Of all that agents can see in a project; what they are asked and how they are judged they are told."""
    found = hashlib.sha256()
    for path in sorted(root.rglob("*")):
        name = path.relative_to(root).as_posix()
        if name not in (EVAL_SET, CRITERIA):
            found.update(f"{name}\0{path.readlink() if path.is_symlink() else ''}\0".encode())
            if name.startswith(TIMED):
                found.update(f"{path.stat().st_mtime_ns}\0{path.stat().st_mode}".encode())
            data = path.read_bytes() if path.is_file() else b""
            found.update(f"{len(data) if path.is_file() else 'folder'}\0".encode() + data)
    return found.hexdigest()


def _environment(root: Path) -> dict[str, str]:
    """The variables that the agent gets: those of this process, and of `.env` those that are not among them."""
    environment = {**os.environ, **ENVIRONMENT}
    file = root / ".env"
    if file.is_file():
        text = file.read_text("utf-8-sig", errors="surrogateescape")
        environment = {**dotenv.parse(text, environment), **environment}
    return environment


def _told(case: EvalCase) -> dict[str, Any]:
    given = case.session_input
    return {
        "prompts": [turn.user_content.text() for turn in case.conversation or ()],
        "session_input": {} if given is None else given.model_dump(mode="json"),
    }


def _judged(case: EvalCase, raw: dict[str, Any], *, config: EvalConfig, root: Path) -> Outcome:
    """What happened in a case, judged by the criteria."""
    turns = tuple(
        TurnResult(invocation=_invocation(turn, answer), duration_seconds=0.0)
        for turn, answer in zip(case.conversation or (), raw["answers"], strict=False)
    )
    message = raw["failure"]
    kind = _NO_END.get(message, FailureKind.AGENT)
    failure = None if message is None else Failure(kind=kind, message=message)
    execution = Execution(turns=turns, final_state=raw["state"], failure=failure)
    subject = JudgedCase(case=case, expected=case.conversation or (), execution=execution)
    no_services = cast(MetricServices, None)  # the metrics of generated criteria need none
    metrics = _at_once(judge_case(subject, prepare(config), no_services))
    result = CaseResult(
        case=CaseKey(target="generated", eval_set=EVAL_SET, eval_id=case.eval_id),
        eval_set_id="set",
        status=decide_case_status(metrics, failure=failure),
        failure=failure,
        metrics=metrics,
        execution=execution,
    )
    return outcome_of(result, root=root, criteria=[criterion.metric for criterion in config.criteria])


def _at_once(coroutine: Coroutine[Any, Any, tuple[MetricResult, ...]]) -> tuple[MetricResult, ...]:
    """What a coroutine gives that waits for nothing."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        return cast(tuple[MetricResult, ...], end.value)
    raise AssertionError("a metric of a generated package waits for something")


def _invocation(turn: Invocation, answer: dict[str, Any]) -> Invocation:
    calls = [{"name": name, "args": args} for name, args in answer["calls"]]
    return Invocation.model_validate(
        {
            "user_content": turn.user_content.model_dump(mode="json", exclude_none=True),
            "final_response": {"role": "model", "parts": [{"text": answer["response"]}]},
            "intermediate_data": {"tool_uses": calls, "tool_responses": [], "intermediate_responses": []},
        }
    )
