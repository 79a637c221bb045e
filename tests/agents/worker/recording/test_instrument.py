"""Uses of code that the recorder cannot follow, such as libraries that open files by themselves."""

from __future__ import annotations

import ast
import sqlite3
from textwrap import dedent
from typing import Any

import pytest

from workbench.agents.worker.recording.blocks import cut
from workbench.agents.worker.recording.instrument import find_opaque_uses


def find_uses(source: str) -> dict[str, list[str]]:
    """Return the opaque uses of each function."""
    tree = ast.parse(dedent(source))
    reads = find_opaque_uses(dedent(source).encode(), tree, cut(tree)[1])
    return {
        name: sorted(reason.removesuffix(" opens files by itself") for reason in reasons)
        for name, reasons in reads.items()
    }


@pytest.mark.parametrize(
    ("expression", "library"),
    [
        ("etree.parse('a.xml')", None),
        ("etree.parse(*path)", "lxml"),
        ("etree.iterparse('a.xml')", None),
        ("etree.XMLSchema(file='a.xsd')", "lxml"),
        ("etree.fromstring('<a/>')", None),
        ("from_lxml('a.xml')", None),
        ("map(from_lxml, path)", "lxml"),
        ("pq.read_table('a.parquet')", None),
        ("pq.write_table(pq.read_table('a.parquet'), path)", "pyarrow"),
        ("pd.read_parquet('a.parquet')", None),
        ("pd.read_parquet(**path)", "pandas"),
        ("pd.read_hdf('a.h5')", "pandas"),
        ("pd.read_csv('a.csv')", None),
        ("safetensors.safe_open('a', 'np')", "safetensors"),
        ("torch.load('a.pt')", None),
        ("torch.jit.load('a.pt')", "torch"),
        ("tokenizers.Tokenizer.from_file('a.json')", None),
        ("context.load_cert_chain('a.pem')", None),
        ("path(context.load_cert_chain)", "ssl"),
        ("readline.read_history_file('a')", None),
        ("readline.read_history_file()", "readline"),
        ("dbm.gnu.open('a')", "dbm"),
        ("ssl.create_default_context(cafile='a.pem')", None),
        ("path(ssl, cafile='a.pem')", "ssl"),
        ("ssl.create_default_context()", None),
        ("connection.execute(f\"ATTACH '{path}' AS other\")", None),
        ("connection.execute(\"ATTACH '%s' AS other\" % path)", "ATTACH in SQL"),
        ("send('Attach the bill')", None),
        ("other.__code__.co_consts", "line numbers, or code objects"),
        ("sys._getframe().f_lineno", "line numbers, or code objects"),
        ("sys._getframe().f_code.co_name", None),
    ],
)
def test_functions_with_opaque_uses_are_found(expression: str, library: str | None) -> None:
    source = f"""
        import pandas as pd
        import pyarrow.parquet as pq
        import dbm.gnu, readline, safetensors, ssl, tokenizers, torch
        from lxml import etree
        from lxml.etree import parse as from_lxml

        def tool(path):
            return {expression}

        def other(path):
            return path
    """

    assert find_uses(source) == ({} if library is None else {"tool": [library]})


def test_opaque_uses_of_modules_and_methods_are_distinguished() -> None:
    source = """
        import duckdb

        TABLE = duckdb.read_csv("a.csv")

        class Tools:
            def first(self):
                import pyarrow as pa
                return lambda: pa.memory_map("a")

            def second(self):
                pa = duckdb
                return pa
    """

    assert find_uses(source) == {"": ["duckdb"], "Tools.first": ["pyarrow"], "Tools.second": ["duckdb"]}
    assert find_uses("def f(pyarrow): return pyarrow.x") == {}


@pytest.mark.needs_fork
async def test_only_cases_that_call_an_opaque_function_are_opaque(bench: Any, run: Any) -> None:
    for name in ("other.db", "second.db"):
        with sqlite3.connect(bench.folder / name) as connection:
            connection.execute("create table t (x)")
    (bench.folder / "history.txt").write_text("first\n")
    bench.agent(
        """
        import readline
        import sqlite3
        def answer(prompt): return (globals()[prompt] if prompt in globals() else str)()
        def attached(): return attach("attach 'other.db' as other")
        def given(): return attach("attach ? as other", ["second.db"])
        def attach(sql, values=()):
            connection = sqlite3.connect(":memory:")
            connection.execute(sql, values)
            return str(connection.execute("select * from other.t").fetchall())
        def formatted(name="second.db"):
            connection = sqlite3.connect(":memory:")
            connection.execute(f"attach '{name}' as other")
            return str(connection.execute("select * from other.t").fetchall())
        def history():
            readline.read_history_file("history.txt")
            return readline.get_history_item(1)
        def settings():
            readline.read_history_file("*.txt")
        """
    )

    assert not (await run("hi")).rows("opaque")
    attached, given, formatted, history = [await run(name) for name in ("attached", "given", "formatted", "history")]
    assert attached.responses == given.responses == formatted.responses == ["[]"]
    assert history.responses == ["first"]
    assert given.rows("opaque").keys() == {"ATTACH in SQL"}
    for record, name in ((attached, "other.db"), (formatted, "second.db"), (history, "history.txt")):
        assert not record.rows("opaque")
        assert name in record.rows("file")
    assert (await run("settings")).rows("opaque").keys() == {"readline opens files by itself"}
