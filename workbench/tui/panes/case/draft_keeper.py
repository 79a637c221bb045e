"""What goes on by itself so that no typed text is lost: what is not applied is kept in a file and found there again."""

from __future__ import annotations

from collections.abc import Sequence

from textual import work
from textual.message import Message

from workbench.store.errors import StoreError
from workbench.tui.gateway.typed_texts import TypedTexts
from workbench.tui.screens.faceless import Faceless
from workbench.tui.state.editor.desk import Desk
from workbench.tui.state.editor.draft import Draft
from workbench.tui.state.editor.kept_draft import found_draft, kept_draft
from workbench.tui.state.editor.opened import Edited
from workbench.tui.widgets.saying import say

_KEEP = 0.25  # seconds between two looks at whether something else is typed


class DraftKeeper(Faceless):
    """Keeps the drafts of a desk, those of earlier sessions too."""

    class Found(Message):
        """There are drafts of an earlier session on the desk."""

    def __init__(self, texts: TypedTexts, desk: Desk) -> None:
        super().__init__()
        self._texts = texts
        self._desk = desk
        self._kept: list[tuple[Edited, Draft]] = []
        self._is_refused = False
        self._is_given_up = False

    def on_mount(self) -> None:
        """Look what earlier sessions left; from then on keep what this one has."""
        self._begin()

    async def forget(self) -> None:
        """Give up what is typed: the user leaves without it."""
        self._is_given_up = True
        await self._keep([])

    @work(group="typed")
    async def _begin(self) -> None:
        try:
            found = [found_draft(kept) for kept in await self._texts.take_over()]
        except StoreError as error:
            say(self, f"what was typed in an earlier session cannot be had back: {error}", severity="error")
            found = []
        drafts = [draft for draft in found if draft is not None]
        if drafts:
            self._desk.take_up(drafts)
            self.post_message(self.Found())
        self.set_interval(_KEEP, self._keep_if_other)

    def _keep_if_other(self) -> None:
        drafts = list(self._desk.unapplied)
        if drafts != self._kept and not self._is_given_up:
            self._kept = drafts
            self._keep_these(drafts)

    @work(group="typed", exclusive=True)
    async def _keep_these(self, drafts: Sequence[tuple[Edited, Draft]]) -> None:
        await self._keep(drafts)

    async def _keep(self, drafts: Sequence[tuple[Edited, Draft]]) -> None:
        try:
            await self._texts.keep([kept_draft(edited, draft) for edited, draft in drafts])
        except StoreError as error:
            if not self._is_refused:  # once, not at every key press
                say(self, f"what is typed would not outlive a crash: {error}", severity="error")
            self._is_refused = True
        else:
            self._is_refused = False
