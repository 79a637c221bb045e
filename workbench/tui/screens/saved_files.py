"""Says that files were saved, while no watch does, so that the shown verdicts are checked."""

from __future__ import annotations

import contextlib

from textual import work
from textual.message import Message
from textual.worker import Worker, WorkerCancelled, WorkerFailed

from workbench.store.errors import StoreError
from workbench.tui.hub import Hub
from workbench.tui.screens.faceless import Faceless


class SavedFiles(Faceless):
    """Observes the files of the project, which a watch does by itself."""

    class Saved(Message):
        """Files were saved, or may have been while nothing observed them."""

    def __init__(self, hub: Hub) -> None:
        super().__init__()
        self._hub = hub
        self._observing: Worker[None] | None = None

    async def on_unmount(self) -> None:
        """The screen is closed: nothing of the observing is left behind."""
        self.stop()
        if self._observing is not None:
            with contextlib.suppress(WorkerCancelled, WorkerFailed):
                await self._observing.wait()

    def observe(self) -> None:
        """Observe what there is now."""
        self._observing = self._observe()

    def stop(self) -> None:
        """Leave it to the watch."""
        self.workers.cancel_group(self, "saved")

    @work(group="saved", exclusive=True)
    async def _observe(self) -> None:
        # A history that cannot be read was reported already; without observing there are F5 and the next start.
        with contextlib.suppress(StoreError, OSError):
            await self._hub.gateway.saved_files.observe(lambda: self.post_message(self.Saved()))
