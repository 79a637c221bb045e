"""How the names on the command line are split."""

from __future__ import annotations

import pytest

from workbench.cli.arguments import Named, split_argument

FILES = {"a.json", "odd:name.json", "dir", "C:/sets/a.json"}


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("a.json", Named("a.json")),
        ("a.json:one", Named("a.json", ("one",))),
        ("a.json:one, two,,", Named("a.json", ("one", "two"))),
        ("a.json:", Named("a.json", ())),
        ("odd:name.json", Named("odd:name.json")),
        ("odd:name.json:one", Named("odd:name.json", ("one",))),
        ("C:/sets/a.json:one", Named("C:/sets/a.json", ("one",))),
        ("missing.json", None),
        ("missing.json:one", None),
        ("a.json:one:two", None),
        (":one", None),
    ],
)
def test_a_name_splits_at_its_last_colon_where_the_left_side_exists(text: str, named: Named | None) -> None:
    assert split_argument(text, exists=FILES.__contains__) == named
