"""Keys of the screens that decide what becomes of edits: conflicts, and what an earlier session left."""

from __future__ import annotations

from workbench.tui.keys.actions import KeyAction, KeyPlace

CONFLICT = KeyPlace(
    "conflict",
    "Where an eval set changed on disk",
    (
        KeyAction(
            "conflict_mine",
            "conflict",
            "m",
            "keep_mine",
            "keep mine",
            footer=True,
            explanation="write your version in place of the one on disk",
        ),
        KeyAction(
            "conflict_theirs",
            "conflict",
            "t",
            "take_theirs",
            "take theirs",
            footer=True,
            explanation="take the version on disk; undo brings yours back",
        ),
        KeyAction(
            "conflict_both",
            "conflict",
            "b",
            "keep_both",
            "keep both",
            footer=True,
            explanation="write the version on disk with your changes, where no case was changed by both",
        ),
        KeyAction(
            "conflict_merge",
            "conflict",
            "e",
            "merge",
            "both in editor",
            footer=True,
            explanation="edit both versions as one text in your editor, and write the result",
        ),
        KeyAction("conflict_later", "conflict", "escape", "later", "decide later", footer=True),
    ),
    is_modal=True,
)

RECOVERY = KeyPlace(
    "recovery",
    "Where unsaved edits were found",
    (
        KeyAction("recovery_restore", "recovery", "r", "restore", "restore", footer=True),
        KeyAction("recovery_look", "recovery", "d", "look", "difference", footer=True),
        KeyAction("recovery_discard", "recovery", "x", "discard", "throw away", footer=True),
        KeyAction("recovery_later", "recovery", "escape", "later", "decide later", footer=True),
    ),
    is_modal=True,
)

VERSIONS = KeyPlace(
    "versions",
    "Where two versions are compared",
    (KeyAction("versions_close", "versions", "escape", "close", "back", footer=True),),
    is_modal=True,
)
