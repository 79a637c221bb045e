"""The cases that stored results were held against: rows of datasets as they were, others as their sets are now."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from workbench.model.evalset import EvalCase
from workbench.model.keys import CaseKey
from workbench.model.results import CaseResult
from workbench.store.errors import StoreError

if TYPE_CHECKING:
    from workbench.store.documents import EvalSetDocument

_Places = dict[tuple[str, int], int]


class ExpectedCases:
    """Finds the cases of results, each set opened once; those that are gone or broken are simply not there."""

    def __init__(self, open_document: Callable[[str], EvalSetDocument]) -> None:
        """`open_document` opens the set of this name, relative to the project; it raises StoreError."""
        self._open_document = open_document
        self._sets: dict[str, tuple[EvalSetDocument, _Places] | None] = {}

    def __call__(self, result: CaseResult) -> EvalCase | None:
        """The case of a result, if it is still there."""
        if result.expected_by_row is not None:
            return result.expected_by_row
        key = result.case
        found = self._set(key.eval_set)
        index = None if found is None else found[1].get((key.eval_id, key.occurrence))
        if found is None or index is None:
            return None
        try:
            return found[0].case(index)
        except StoreError:
            return None

    def place(self, key: CaseKey) -> tuple[int, str]:
        """What to sort by: the place in the set, and the id for those that are no longer in it."""
        found = self._set(key.eval_set)
        places = {} if found is None else found[1]
        return places.get((key.eval_id, key.occurrence), len(places)), key.eval_id

    def _set(self, relative: str) -> tuple[EvalSetDocument, _Places] | None:
        if relative not in self._sets:
            try:
                document = self._open_document(relative)
            except StoreError:
                self._sets[relative] = None
            else:
                places = {(entry.eval_id, entry.occurrence): entry.index for entry in document.entries}
                self._sets[relative] = (document, places)
        return self._sets[relative]
