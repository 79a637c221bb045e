"""The truth: what a fresh run of every case gives, with nothing of the workbench between Python and the agent.

Every case runs in a process that has imported only Python's own library, on a copy of the project, so that what agents
write changes nothing. Only the judging is the workbench's.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Coroutine, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self, cast

from workbench.agents.worker import dotenv
from workbench.metrics.judge import JudgedCase, MetricServices, judge_case
from workbench.model.criteria import EvalConfig
from workbench.model.evalset import EvalCase, Invocation
from workbench.model.keys import CaseKey
from workbench.model.results import (
    CaseResult,
    Execution,
    Failure,
    FailureKind,
    MetricResult,
    TurnResult,
    status_of_case,
)
from workbench.store.documents import load_config

from .outcomes import Outcome, outcome_of, without_root
from .packages import CRITERIA, ENVIRONMENT, EVAL_SET, TARGET

_SERVER = Path(__file__).with_name("oracle_server.py")
_LEFT_OUT = shutil.ignore_patterns("__pycache__", ".workbench", ".adk", ".git")


class Oracle:
    """Runs projects fresh. Keeps one process that only ever forks; `scratch` is a folder for its copies."""

    def __init__(self, scratch: Path) -> None:
        self._scratch = scratch
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
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(timeout=30)
        self._process.stdout.close()

    def run(self, project: Path) -> dict[str, Outcome]:
        """What every case of a project gives as it is now, by its id."""
        copy = self._scratch / "state"
        shutil.copytree(project, copy, ignore=_LEFT_OUT, copy_function=shutil.copyfile)
        try:
            return self._run(copy.resolve())
        finally:
            shutil.rmtree(copy, ignore_errors=True)

    def _run(self, root: Path) -> dict[str, Outcome]:
        data = json.loads((root / EVAL_SET).read_text("utf-8"))
        cases = [EvalCase.model_validate(case) for case in data["eval_cases"]]
        config = load_config(root / CRITERIA)
        job = {
            "root": str(root),
            "target": TARGET,
            "environment": _environment(root),
            "cases": [_told(case) for case in cases],
        }
        found = self._ask(job)
        self.modules = {case.eval_id: frozenset(raw["modules"]) for case, raw in zip(cases, found, strict=True)}
        return {
            case.eval_id: _judged(case, raw, config=config, root=root) for case, raw in zip(cases, found, strict=True)
        }

    def _ask(self, job: dict[str, Any]) -> list[dict[str, Any]]:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(job) + "\n")
        self._process.stdin.flush()
        answer: list[dict[str, Any]] = json.loads(self._process.stdout.readline())
        return answer


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
    failure = None if message is None else Failure(kind=FailureKind.AGENT, message=without_root(message, root))
    execution = Execution(turns=turns, final_state=raw["state"], failure=failure)
    subject = JudgedCase(case=case, expected=case.conversation or (), execution=execution)
    no_services = cast(MetricServices, None)  # the metrics of generated criteria need none
    metrics = _at_once(judge_case(subject, config, no_services))
    result = CaseResult(
        case=CaseKey(target="generated", eval_set=EVAL_SET, eval_id=case.eval_id),
        eval_set_id="set",
        status=status_of_case(metrics, failure=failure),
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
