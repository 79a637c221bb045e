"""A project whose cases differ from their expectations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.tui.differing_project import make_differing_project


@pytest.fixture
def project(make: Any, make_project: Any) -> Path:
    return make_differing_project(make, make_project)
