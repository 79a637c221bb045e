"""The ways in which a watcher finds changes."""

from __future__ import annotations

import sys

import pytest

from workbench.watch import file_watcher
from workbench.watch.file_watcher import WatchfilesListener

linux = pytest.mark.skipif(sys.platform != "linux", reason="other systems use watchfiles")


@pytest.fixture(params=["events", "events of watchfiles", "scanning"])
def scan(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """True if all files are compared. Events are those of this system or those of `watchfiles`, for other systems."""
    if request.param == "events of watchfiles":
        monkeypatch.setattr(file_watcher, "listen", WatchfilesListener)
    return bool(request.param == "scanning")
