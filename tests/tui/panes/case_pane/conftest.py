"""A project whose cases the tests of the case pane edit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.tui.panes.case_pane.opened import LAMP, TEA


@pytest.fixture
def project(make_project: Callable[..., Path]) -> Path:
    return make_project(home=[LAMP, TEA])
