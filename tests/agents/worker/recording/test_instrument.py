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
        ("etree.parse('a.xml')", "lxml"),
        ("etree.XMLSchema(file='a.xsd')", "lxml"),
        ("etree.fromstring('<a/>')", None),
        ("from_lxml('a.xml')", "lxml"),
        ("pq.read_table('a.parquet')", "pyarrow"),
        ("pd.read_parquet('a.parquet')", "pandas"),
        ("pd.read_csv('a.csv')", None),
        ("tokenizers.Tokenizer.from_file('a.json')", "tokenizers"),
        ("context.load_cert_chain('a.pem')", "ssl"),
        ("readline.read_history_file('a')", "readline"),
        ("dbm.gnu.open('a')", "dbm"),
        ("ssl.create_default_context(cafile='a.pem')", "ssl"),
        ("ssl.create_default_context()", None),
        ("connection.execute('attach ? as other', ['a.db'])", "ATTACH in SQL"),
        ("connection.execute(f\"ATTACH '{path}' AS other\")", "ATTACH in SQL"),
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
        import dbm.gnu, readline, ssl, tokenizers
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
    with sqlite3.connect(bench.folder / "other.db") as connection:
        connection.execute("create table t (x)")
    bench.agent(
        """
        import sqlite3
        def answer(prompt): return attached() if prompt == "attach" else "no"
        def attached():
            connection = sqlite3.connect(":memory:")
            connection.execute("attach 'other.db' as other")
            return str(connection.execute("select * from other.t").fetchall())
        """
    )

    assert not (await run("hi")).rows("opaque")
    record = await run("attach")
    assert record.responses == ["[]"]
    assert record.rows("opaque").keys() == {"ATTACH in SQL"}
