"""Find other installed versions of Python."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest


def find_interpreter(version: str) -> Path:
    """Return the interpreter of a version such as `3.12`. Skip the test if it is not installed."""
    found = [shutil.which(f"python{version}"), *map(str, Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))]
    for python in filter(None, reversed(found)):
        if subprocess.run([python, "-c", ""], capture_output=True, check=False).returncode == 0:
            return Path(python)
    pytest.skip(f"no Python {version} on this machine")
