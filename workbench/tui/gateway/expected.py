"""The cases that results were held against, as the eval sets have them now."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.model.evalset import EvalCase
from workbench.model.keys import CaseKey
from workbench.store.errors import StoreError

if TYPE_CHECKING:
    from workbench.engine.workspace import Workspace
    from workbench.store.documents import EvalSetDocument


class ExpectedCases:
    """Finds cases by their keys; None for those that are gone or broken. Used on the gateway's thread."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._sets: dict[str, tuple[EvalSetDocument, dict[tuple[str, int], int]] | None] = {}

    def __call__(self, key: CaseKey) -> EvalCase | None:
        """The case."""
        found = self._set(key.eval_set)
        index = None if found is None else found[1].get((key.eval_id, key.occurrence))
        if found is None or index is None:
            return None
        try:
            return found[0].case(index)
        except StoreError:
            return None

    def _set(self, relative: str) -> tuple[EvalSetDocument, dict[tuple[str, int], int]] | None:
        if relative not in self._sets:
            try:
                document = self._workspace.document(relative)
            except StoreError:
                self._sets[relative] = None
            else:
                places = {(entry.eval_id, entry.occurrence): entry.index for entry in document.entries}
                self._sets[relative] = (document, places)
        return self._sets[relative]
