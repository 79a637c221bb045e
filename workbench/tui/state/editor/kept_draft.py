"""Drafts as JSON values, to be kept through a crash."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from workbench.model.keys import CaseKey
from workbench.tui.state.editor.draft import Draft, Form
from workbench.tui.state.editor.opened import Edited
from workbench.tui.state.editor.operations import Slot
from workbench.tui.state.editor.rows import ABSENT, Input, Place


def kept_draft(edited: Edited, draft: Draft) -> dict[str, Any]:
    """A draft, and what it is of, as a JSON value. What something new is typed from is not in it."""
    kept = {
        "eval_set": edited.eval_set,
        "case": edited.case.model_dump() if edited.case is not None else None,
        "slot": asdict(draft.slot),
        "form": draft.form.value,
        "text": draft.text,
    }
    return kept if draft.is_new else {**kept, "begun_from": draft.begun_from}


def found_draft(kept: Any) -> tuple[Edited, Draft] | None:
    """A draft, and what it is of, from its JSON value; None where that is not one."""
    try:
        slot = kept["slot"]
        case = CaseKey.model_validate(kept["case"]) if kept["case"] is not None else None
        draft = Draft(
            slot=Slot(
                place=tuple(slot["place"]),
                title=slot["title"],
                input=Input(slot["input"]),
                index=slot["index"],
                template=slot["template"],
                hole=_place(slot["hole"]),
                instead_of=_place(slot["instead_of"]),
            ),
            form=Form(kept["form"]),
            text=kept["text"],
            begun_from=kept.get("begun_from", ABSENT),
        )
        return Edited(kept["eval_set"], case), draft
    except (KeyError, TypeError, ValueError):
        return None


def _place(steps: Any) -> Place | None:
    return None if steps is None else tuple(steps)
