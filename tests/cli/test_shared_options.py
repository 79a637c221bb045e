"""Splitting of names on the command line."""

from __future__ import annotations

import pytest

from workbench.cli.shared_options import NamedArgument, split_argument

FILES = {"a.json", "odd:name.json", "dir", "C:/sets/a.json"}


@pytest.mark.parametrize(
    ("text", "parsed"),
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
def test_an_argument_splits_at_the_last_colon_after_an_existing_path(text: str, parsed: NamedArgument | None) -> None:
    assert split_argument(text, exists=FILES.__contains__) == parsed
