"""`[keys]` of the settings."""

from __future__ import annotations

import pytest

from workbench.tui.keys import KEY_ACTIONS, check_keys, find_first_key


def test_the_default_keys_have_no_conflicts() -> None:
    defaults = {item.id: item.keys for item in KEY_ACTIONS}

    assert check_keys(defaults) == (defaults, {})


@pytest.mark.parametrize("keys", ["ctrl+b", "f6", "R", "ctrl+shift+up", "colon", ":", ",", "ctrl+y,ctrl+b"])
def test_keys_may_be_written_as_characters_names_and_with_modifiers(keys: str) -> None:
    usable, problems = check_keys({"run_all": keys})

    assert problems == {}
    assert list(usable) == ["run_all"]


def test_an_unknown_action_is_named_with_the_nearest_known_one() -> None:
    assert check_keys({"run_al": "z"}) == ({}, {"run_al": "[keys] run_al: no such action; did you mean 'run_all'?"})


@pytest.mark.parametrize("keys", ["contrl+r", "flipper", "", "ctrl+"])
def test_a_key_that_does_not_exist_is_refused(keys: str) -> None:
    usable, problems = check_keys({"run_all": keys})

    assert usable == {}
    assert "is not a key" in problems["run_all"]


def test_places_that_are_never_active_together_may_have_the_same_keys() -> None:
    usable, problems = check_keys({"lines_down": "f6", "rows_enter": "f6"})

    assert (usable, problems) == ({"lines_down": "f6", "rows_enter": "f6"}, {})


def test_a_used_key_is_refused_unless_its_owner_gets_another_key() -> None:
    assert check_keys({"run_case": "j"}) == (
        {},
        {"run_case": "[keys] run_case: j is already the key of rows_down; the default key stays"},
    )

    usable, problems = check_keys({"run_all": "r", "run_case": "ctrl+a"})
    assert (usable, problems) == ({"run_all": "r", "run_case": "ctrl+a"}, {})


def test_the_first_key_of_an_action_is_shown_as_it_is_typed() -> None:
    assert find_first_key("run_case", {}) == "r"
    assert find_first_key("list_mark_listed", {}) == "+"
    assert find_first_key("run_case", {"run_case": ",,f6"}) == "f6"
    assert find_first_key("run_case", {"run_case": ","}) == ","
