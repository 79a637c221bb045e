"""Observed access to environment variables."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from workbench.agents.worker.recording import fingerprints

pytestmark = pytest.mark.needs_fork


async def test_each_kind_of_access_to_variables_is_recorded(
    bench: Any, run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("WB_GET", "WB_ITEM", "WB_IN", "WB_OTHER", "WB_LOOP"):
        monkeypatch.setenv(name, "value")
    env_file = bench.write(".env", "WB_FILE=from file\nWB_UNREAD=x\nWB_SET=y\n")
    bench.agent(
        """
        import os
        os.environ["WB_SET"] = "own"
        def answer(prompt):
            os.environ.get("WB_GET"); os.getenv("WB_NONE"); os.environ["WB_ITEM"]; "WB_IN" in os.environ
            os.getenvb(b"WB_BYTES"); os.environ["WB_SET"]
            try: os.environ["WB_MISSING"]
            except KeyError: pass
            dict(os.environ); {**os.environ}; os.environ.copy(); list(os.environ.items()); os.environ | {}
            for name in os.environ:
                if name == "WB_LOOP": os.environ[name]
            for name, value in os.environ.items(): os.environ.get("WB_AMID")
            return os.environ["WB_FILE"]
        """
    )

    record = await run(env_file=env_file)

    assert record.responses == ["from file"]
    secret = fingerprints.derive_secret(str(bench.folder))
    expected = {"WB_GET": "value", "WB_ITEM": "value", "WB_IN": "value", "WB_LOOP": "value", "WB_FILE": "from file"}
    absent = dict.fromkeys(("WB_NONE", "WB_BYTES", "WB_MISSING", "WB_AMID"), "absent")
    hashed = {name: fingerprints.of_variable(secret, value) for name, value in expected.items()}
    assert record.rows("variable") == {**hashed, **absent}
    in_effect = {"WB_FILE": "from file", "WB_UNREAD": "x", "WB_SET": "y"}  # even if the agent overwrites them
    counted = fingerprints.select_variables("all", {**os.environ, **in_effect}, defined=in_effect)
    assert record.rows("variables")["all"] == fingerprints.of_variables(secret, counted)
    assert record.rows("env_files") == {".env": "-"}


@pytest.mark.needs_fork
async def test_the_variable_that_marks_the_process_group_is_not_a_dependency(bench: Any, run: Any) -> None:
    bench.agent("""
        import os
        def answer(prompt):
            return str([name for name in os.environ if os.environ[name] and name == "WORKBENCH_PROCESS_GROUP"])
    """)

    record = await run()

    assert record.responses == ["['WORKBENCH_PROCESS_GROUP']"]
    assert "PATH" in record.rows("variable")
    assert "WORKBENCH_PROCESS_GROUP" not in record.rows("variable")


async def test_values_of_variables_are_not_reported(bench: Any, run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WB_KEY", "very-secret")
    bench.agent("import os\ndef answer(prompt): return str(len(os.environ['WB_KEY']))")

    record = await run()

    assert record.responses == ["11"]
    assert "very-secret" not in repr(record.dependencies)


async def test_a_variable_read_by_a_library_before_the_env_file_is_loaded_is_early(
    bench: Any, run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = tmp_path / "site-packages"
    library.mkdir()
    (library / "reader.py").write_text("import os\nKEY = os.environ.get('WB_EARLY')\n")
    monkeypatch.setenv("PYTHONPATH", str(library))
    monkeypatch.setenv("WB_EARLY", "plain")
    bench.agent("import reader\nopened = open(__file__)\ndef answer(prompt): return reader.KEY")
    host = bench.host(mode="fork")
    records = [await run(host=host)]
    host.prepare(cases=2)

    records += [await run(host=host) for _ in range(2)]

    secret = fingerprints.derive_secret(str(bench.folder))
    assert records[0].rows("variable")["WB_EARLY"] == fingerprints.of_variable(secret, "plain")
    assert records[2].rows("early_variable")["WB_EARLY"] == fingerprints.of_variable(secret, "plain")
    assert "WB_EARLY" not in records[2].rows("variable")
