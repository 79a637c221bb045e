"""What befalls the cache of models' answers, which all runs of a project share."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from workbench.engine.run import Run


class CacheWarnings:
    """What goes wrong with the cache that all share: told to the run that asks models, else to the next that does."""

    def __init__(self) -> None:
        self._run: Run | None = None
        self._untold: list[str] = []

    def tell(self, message: str) -> None:
        """Something went wrong, for whomever it was used."""
        if self._run is None or self._run.is_over:
            self._untold.append(message)
        else:
            self._run.warn(message)

    def tell_to(self, run: Run) -> None:
        """This run asks models from now on."""
        self._run = run
        untold, self._untold = self._untold, []
        for message in untold:
            run.warn(message)
