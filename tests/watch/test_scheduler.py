"""Which changes a job of the watch may have caused itself."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import pytest

from workbench.model.identity import CaseKey, JobKey
from workbench.watch.scheduler import ActiveJobs


@pytest.mark.parametrize(
    ("written", "reported", "may_be_its_own"),
    [
        (99.9, 100.5, True),
        (99.9, 104.0, True),  # on a busy machine
        (99.9, 120.0, False),
        (102.0, 102.1, False),
        (None, 100.5, True),
        (None, 102.0, False),
    ],
)
def test_a_job_may_have_caused_what_was_written_before_its_end(
    written: float | None, reported: float, may_be_its_own: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = JobKey(case=CaseKey(target="t", eval_set="s", eval_id="a"))
    active: Any = SimpleNamespace(run=SimpleNamespace(run_id="r"), ends_with_processes=True)
    jobs = ActiveJobs()
    jobs.add(job, active)
    monkeypatch.setattr(time, "time", lambda: 100.0)
    jobs.remove(job)
    monkeypatch.setattr(time, "time", lambda: reported)

    assert jobs.may_have_written(job, written) is may_be_its_own
