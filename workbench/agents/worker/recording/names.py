"""Names of modules that are imported already, made ready before a fork."""

from __future__ import annotations

from .fingerprints import ABSENT, may_import, of_import

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Iterable


class Names:
    """Hundreds of names, of which a folder of the agent has none as a rule.

    To touch each of them in a forked child would copy most pages of memory that they are on.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._sorted = sorted(names)
        self._all = frozenset(self._sorted)
        self._absent = ",".join(ABSENT for _ in self._sorted)
        self.joined = ",".join(self._sorted)

    def of_import(self, folder: str) -> str:
        """The fingerprint of that name: what an import finds in a folder under each of them."""
        return self._absent if self._all.isdisjoint(may_import(folder)) else of_import(folder, self._sorted)
