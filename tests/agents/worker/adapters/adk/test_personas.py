"""ADK's personas, as an interpreter tells them."""

from __future__ import annotations

from pathlib import Path

from workbench.agents.agent_sessions import read_adk_personas


def test_what_libraries_print_before_and_after_the_personas_does_not_matter(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text("""#!/bin/sh\necho hello\necho 'workbench-personas:{"NOVICE": {"id": "NOVICE"}}'\necho bye\n""")
    python.chmod(0o755)

    assert read_adk_personas(python) == {"NOVICE": {"id": "NOVICE"}}
