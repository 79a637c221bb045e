"""Keys of the pane `diff`, of the whole text behind it, and of the walk through what failed."""

from __future__ import annotations

from workbench.tui.keys.actions import KeyAction, KeyPlace


def _moves(place: str) -> tuple[KeyAction, ...]:
    return (
        KeyAction(f"{place}_next", place, "},J", "step(1)", "next", explanation="go to the next difference"),
        KeyAction(f"{place}_previous", place, "{,K", "step(-1)", "previous", explanation="go to the difference before"),
        KeyAction(
            f"{place}_level",
            place,
            "d",
            "cycle_level",
            "more/less",
            footer=True,
            explanation="fold turns that are as expected, show only differences, or show everything",
        ),
    )


PLACE = KeyPlace(
    "diff",
    "In the diff",
    (
        KeyAction(
            "diff_accept",
            "diff",
            "a",
            "accept_hunk",
            "accept",
            footer=True,
            explanation="accept the difference under the cursor",
            yields=True,  # it is what the screen's own key does here; named so that it comes first
        ),
        KeyAction("diff_accept_turn", "diff", "T", "accept_turn", "accept turn", explanation="accept this whole turn"),
        KeyAction(
            "diff_accept_case", "diff", "A", "accept_case", "accept case", footer=True, explanation="accept all of it"
        ),
        *_moves("diff"),
        KeyAction("diff_whole", "diff", "W", "open_whole", "whole text", explanation="show all of every text"),
    ),
    made_of=("lines",),
)

WHOLE = KeyPlace(
    "whole",
    "In the whole text",
    (*_moves("whole"), KeyAction("whole_close", "whole", "escape,W", "close", "back", footer=True)),
    is_modal=True,
)

REVIEW = KeyPlace(
    "review",
    "In the review",
    (
        KeyAction("review_accept", "review", "a", "accept_hunk", "accept", footer=True, explanation="accept this one"),
        KeyAction(
            "review_accept_case",
            "review",
            "A",
            "accept_case",
            "accept all",
            footer=True,
            explanation="accept the whole case and go to the next",
        ),
        KeyAction("review_skip", "review", "s,n", "skip", "skip", footer=True, explanation="leave it as it is"),
        KeyAction("review_back", "review", "p", "back", "previous", footer=True, explanation="the case before"),
        KeyAction("review_edit", "review", "e", "edit", "edit", footer=True, explanation="end here and edit this case"),
        KeyAction("review_undo", "review", "u", "undo", "undo", footer=True, explanation="take back the last one"),
        *_moves("review"),
        KeyAction("review_quit", "review", "escape", "quit", "quit", footer=True, explanation="end the review"),
    ),
    is_modal=True,
)
