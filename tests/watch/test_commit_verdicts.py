"""The part of a diff that changes something that a case used."""

from __future__ import annotations

import difflib

from workbench.watch.commit_verdicts import limit_diff

BEFORE = "def used():\n    return 1\n\n\n# between\n\n\n\n\ndef other():\n    return 2\n"
AFTER = BEFORE.replace("return 1", "return 3").replace("return 2", "return 4")


def test_hunks_that_change_no_used_function_are_left_out_and_counted() -> None:
    diff = "".join(difflib.unified_diff(BEFORE.splitlines(True), AFTER.splitlines(True), "a", "b", n=1))

    limited, left_out = limit_diff(diff, (BEFORE, AFTER), {"used"})

    assert left_out == 1
    assert "+    return 3\n" in limited
    assert "return 4" not in limited
    assert limit_diff(diff, (BEFORE, AFTER), set()) == ("", 2)
    assert limit_diff(diff, ("def (", AFTER), {"used"}) == (diff, 0)
