"""Other installed versions of Python, and what a fresh interpreter loads."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest


def find_interpreter(version: str) -> Path:
    """Return the interpreter of a version such as `3.12`. Skip the test if it is not installed."""
    found = [shutil.which(f"python{version}"), *map(str, Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))]
    for python in filter(None, reversed(found)):
        if subprocess.run([python, "-c", ""], capture_output=True, check=False).returncode == 0:
            return Path(python)
    pytest.skip(f"no Python {version} on this machine")


def find_loaded_packages(statement: str) -> set[str]:
    """Return the top-level packages that a statement loads into a fresh interpreter.

    Packages loaded at the start do not count: google-cloud-aiplatform loads `google` into every interpreter.
    """
    print_packages = "print(json.dumps(sorted({name.partition('.')[0] for name in {*sys.modules} - before})))"
    code = f"import json, sys\nbefore = {{*sys.modules}}\n{statement}\n{print_packages}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout.splitlines()[-1]))
