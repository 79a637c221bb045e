"""ADK's personas, as reported by an interpreter."""

from __future__ import annotations

from pathlib import Path

from workbench.agents.agent_sessions import read_adk_personas


def test_output_of_libraries_around_the_personas_is_ignored(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text("""#!/bin/sh\necho hello\necho 'workbench-personas:{"NOVICE": {"id": "NOVICE"}}'\necho bye\n""")
    python.chmod(0o755)

    assert read_adk_personas(python) == {"NOVICE": {"id": "NOVICE"}}
