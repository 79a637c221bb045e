"""The personas of the google-adk that an agent's interpreter has, as data: ids of ADK's cases are hashes of them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_TIMEOUT_SECONDS = 120.0  # from a cold disk on a busy machine; else it takes a third of a second
_BEFORE = "workbench-personas:"  # libraries print before it while they are imported, and after it at the end

# The packages above the module are stand-ins: what their own code imports takes seconds, and nothing here needs it.
_CODE = f"""
import sys
sys.path[:] = [path for path in sys.path if path]  # nothing of the folder that this was started in
import json, os, types
from importlib.machinery import PathFinder
google = PathFinder.find_spec("google")
for name in ("adk", "adk.errors", "adk.evaluation", "adk.evaluation.simulation"):
    package = sys.modules["google." + name] = types.ModuleType("google." + name)
    package.__path__ = [os.path.join(folder, *name.split(".")) for folder in google.submodule_search_locations]
from google.adk.evaluation.simulation.pre_built_personas import get_default_persona_registry
personas = get_default_persona_registry().get_registered_personas()
print("{_BEFORE}" + json.dumps({{persona.id: persona.model_dump() for persona in personas}}))
"""


def read_adk_personas(python: Path | None = None) -> Mapping[str, Mapping[str, Any]]:
    """Return ADK's personas by id, as ADK dumps them; empty if the interpreter has no google-adk that has them.

    `python` is an interpreter, by default our own. It runs no code of the user.
    """
    command = [str(python or sys.executable), "-c", _CODE]
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=_TIMEOUT_SECONDS,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return {}
    said = done.stdout.decode("utf-8", "replace").rpartition(_BEFORE)[2]
    personas: Mapping[str, Mapping[str, Any]] = json.JSONDecoder().raw_decode(said)[0]
    return personas
