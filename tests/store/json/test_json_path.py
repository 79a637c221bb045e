"""Places in JSON, as text."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from workbench.store.json.json_path import format_place, parse_place


@given(st.lists(st.integers(0, 99) | st.text("abc_.é -", min_size=1).filter(lambda key: "(" not in key), max_size=4))
def test_formatted_paths_are_parsed_back(steps: list[str | int]) -> None:
    assert parse_place(format_place(tuple(steps))) == tuple(steps)
