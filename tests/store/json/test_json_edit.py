"""Renaming a key changes its letters but not its position."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from workbench.store.errors import StoreError
from workbench.store.evalsets.evalset_document import EvalSetDocument

SET = (
    '{"eval_set_id": "s", "eval_cases": [{"eval_id": "a", "conversation": [], "session_input": {"app_name": "x",'
    ' "user_id": "u", "state": {"floor" : 1, /* top */ "room": {"size": 2}}}}]}'
)
STATE = ("session_input", "state")


def test_a_renamed_key_keeps_its_position_and_its_surroundings(write_file: Callable[..., Path]) -> None:
    document = EvalSetDocument.open(write_file(SET))

    document.rename_key((*STATE, "floor"), "Stockwerk ⌂", case=0)

    assert document.content().decode() == SET.replace('"floor"', '"Stockwerk ⌂"')
    assert document.undo() == "rename session_input.state.floor"
    assert document.content().decode() == SET


@pytest.mark.parametrize(
    ("place", "key"), [((*STATE, "floor"), "room"), ((*STATE, "roof"), "x"), ((*STATE, "floor", "x"), "y"), ((), "x")]
)
def test_a_missing_key_or_a_new_name_in_use_cannot_be_renamed(
    write_file: Callable[..., Path], place: tuple[str, ...], key: str
) -> None:
    document = EvalSetDocument.open(write_file(SET))

    with pytest.raises(StoreError):
        document.rename_key(place, key, case=0)

    assert not document.is_dirty
