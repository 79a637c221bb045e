"""A case with constructed verdicts, and the decision about it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from workbench.agents.worker.recording import fingerprints
from workbench.engine.plan import PlannedCase
from workbench.engine.verdict_index import Verdicts
from workbench.metrics.registry import prepare
from workbench.model.criteria import EvalConfig
from workbench.model.identity import CaseKey, Dependencies, Dependency, JobKey
from workbench.model.results import CaseResult, CaseStatus, Execution, Failure, FailureKind, MetricResult, MetricStatus
from workbench.model.target import AgentKind, Target
from workbench.store.history.history_queries import StoredJob, StoredVerdict
from workbench.watch.selector import Decision, Selector
from workbench.watch.snapshot import Snapshot
from workbench.watch.watch_events import describe_reason

CASE = CaseKey(target="t", eval_set="s.evalset.json", eval_id="case")
JOB = JobKey(case=CASE)


class WatchedCase:
    """One case with stored verdicts, and the decision about it."""

    def __init__(self, root: Path, **target: Any) -> None:
        self.root = root
        self.target = Target(name="t", kind=AgentKind.FUNCTION, location="a:b", path=root, **target)
        self.verdicts = Verdicts()
        self.snapshot = Snapshot(leftovers=self.verdicts.list_agent_files)
        self.is_current = False
        self.is_busy = False
        self.selector = Selector(
            self.verdicts, self.snapshot, is_current=lambda _: self.is_current, is_busy=lambda: self.is_busy
        )
        self._number = 0

    def add(
        self,
        *rows: tuple[str, str, str],
        execution_key: str = "asked",
        scoring_key: str = "judged",
        failure: FailureKind | None = None,
        scored_with: tuple[tuple[str, str, str], ...] = (),
        is_certain: bool = True,
        has_dependencies: bool = True,
        execution: int | None = None,
        is_replayed: bool = False,
    ) -> StoredVerdict:
        """Add a verdict of a new run."""
        self._number += 1
        ended_at = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=self._number)
        dependencies = Dependencies(
            rows=frozenset(Dependency(*row) for row in rows), complete=is_certain, recorded_at=ended_at.timestamp()
        )
        scoring_dependencies = Dependencies(rows=frozenset(Dependency(*row) for row in scored_with), complete=True)
        metric = MetricResult(
            name="m",
            score=1.0,
            threshold=1.0,
            status=MetricStatus.PASSED,
            dependencies=scoring_dependencies if scored_with else None,
        )
        result = CaseResult(
            case=CASE,
            eval_set_id="s",
            status=CaseStatus.ERROR if failure else CaseStatus.PASSED,
            metrics=(metric,),
            execution=Execution(dependencies=dependencies if has_dependencies else None),
        )
        job = StoredJob(
            run_id=f"run{self._number}",
            key=JOB,
            status=result.status,
            duration_seconds=0.1,
            agent_seconds=0.1,
            failure=Failure(kind=failure, message="x") if failure else None,
            finished_at=ended_at,
            execution_key=execution_key,
            scoring_key=scoring_key,
            is_replayed=is_replayed,
        )
        stored = StoredVerdict(
            job,
            execution or self._number,
            1000 + self._number if has_dependencies else None,
            2000 + self._number if scored_with else None,
            is_certain=is_certain and has_dependencies,
            started_at=ended_at.timestamp() - job.duration_seconds,
        )
        self.verdicts.add(stored, result)
        return stored

    def decide(self, *, execution_key: str = "asked", scoring_key: str = "judged", **planned: Any) -> Decision:
        """Return the current decision."""
        self.selector.forget()
        case = PlannedCase(
            key=CASE,
            eval_set_id="s",
            target=self.target,
            criteria=prepare(EvalConfig(criteria=())),
            execution_hash=execution_key,
            scoring_hash=scoring_key,
            **planned,
        )
        return self.selector.decide(JOB, case)

    def write_file(self, name: str, text: str) -> tuple[str, str, str]:
        """Write a file, and return the dependency row of a case that read it."""
        path = self.root / name
        path.write_text(text)
        return "file", str(path), fingerprints.of_file(str(path))

    def describe_reasons(self, decision: Decision) -> list[str]:
        """Return the reasons as the user reads them."""
        return [describe_reason(reason, root=self.root, state=self.snapshot) for reason in decision.reasons]
