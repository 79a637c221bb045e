"""Open documents of a project with one eval set."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.engine.open_documents.files import LIGHTS, write_set
from workbench.engine.open_documents import OpenDocuments


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write_set(tmp_path, LIGHTS, "on", "off")


@pytest.fixture
def documents(tmp_path: Path, path: Path) -> OpenDocuments:
    return OpenDocuments(tmp_path)
