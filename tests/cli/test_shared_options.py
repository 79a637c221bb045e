"""Splitting of names on the command line."""

from __future__ import annotations

import pytest

from workbench.cli.shared_options import NamedArgument, split_argument

FILES = {"a.json", "odd:name.json", "dir", "C:/sets/a.json"}


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("a.json", NamedArgument("a.json")),
        ("a.json:one", NamedArgument("a.json", ("one",))),
        ("a.json:one, two,,", NamedArgument("a.json", ("one", "two"))),
        ("a.json:", NamedArgument("a.json", ())),
        ("odd:name.json", NamedArgument("odd:name.json")),
        ("odd:name.json:one", NamedArgument("odd:name.json", ("one",))),
        ("C:/sets/a.json:one", NamedArgument("C:/sets/a.json", ("one",))),
        ("missing.json", None),
        ("missing.json:one", None),
        ("a.json:one:two", None),
        (":one", None),
    ],
)
def test_a_name_splits_at_its_last_colon_where_the_left_side_exists(text: str, named: NamedArgument | None) -> None:
    assert split_argument(text, exists=FILES.__contains__) == named
