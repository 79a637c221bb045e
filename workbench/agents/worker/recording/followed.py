"""Modules that note which of their names are asked for from outside: `tools.LIMIT`, `from tools import refund`.

What code uses of its own module its source tells; what others use of it, only the asking does: the name may be made up
while the program runs.
"""

from __future__ import annotations

import os
import sys
from opcode import opmap
from types import ModuleType
from weakref import ref

from .blocks import EVERYTHING

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType
    from typing import Any, Dict, List, Set, Tuple
    from weakref import ReferenceType

OF_IMPORTS = frozenset(
    ("__name__", "__spec__", "__file__", "__path__", "__loader__", "__package__", "__cached__", "__class__", "__dir__")
)
"""Names that every import asks for; no verdict depends on them."""
_OF_ALL = frozenset(("__dict__", "__annotations__"))
_NAME_TYPES = frozenset(("typing", "dataclasses", "pydantic", "annotationlib", "typing_extensions"))
"""These look for the types that annotations name, and the source of what has the annotations mentions those."""
_IMPORTERS = frozenset(("importlib", "_frozen_importlib", "_frozen_importlib_external"))
_IMPORT_FROM = opmap["IMPORT_FROM"]
_LOADS = frozenset(opmap[name] for name in ("LOAD_ATTR", "LOAD_METHOD") if name in opmap)
_MOST_LOADS = 1_000
"""How often each name is looked at: where one is asked for in a loop, that would take long."""


class Asked:
    """What was asked of the modules of one source file."""

    def __init__(self) -> None:
        self.names: Set[str] = set(OF_IMPORTS)
        """Names, and EVERYTHING; those that every import asks for are always among them."""
        self.modules: List[ReferenceType[ModuleType]] = []
        self.imported: Set[Tuple[str, str]] = set()
        """Names that an `import` statement asked for, with the file that it is in."""
        self.loaded: Set[Tuple[str, str]] = set()
        """Names that were asked for as an attribute, `tools.refund`, with the file that this is in."""
        self._loads: Dict[Tuple[str, int, int], CodeType] = {}  # the code is kept: another one might get its number
        self._counts: Dict[str, int] = {}

    @property
    def count(self) -> int:
        """Greater, the more was asked."""
        return len(self.names) + len(self.imported) + len(self.loaded)

    def all_names(self) -> Set[str]:
        """The names that were asked for in any way."""
        return self.names.union(name for name, _ in (*self.imported, *self.loaded))

    def look_at_modules(self) -> None:
        """A module that has been given another class tells nothing any more: all of its names may be asked for."""
        if any((module := each()) is not None and not _tells(module) for each in self.modules):
            self.names.add(EVERYTHING)

    def note(self, name: str) -> None:
        """A name is asked for, by the code that called who calls this."""
        try:
            frame = sys._getframe(2)
        except ValueError:  # no Python code
            self.names.add(EVERYTHING if name in _OF_ALL else name)
            return
        code = frame.f_code
        place = (name, id(code), frame.f_lasti)
        if place in self._loads:
            self._count(name)
            return
        asking = str(frame.f_globals.get("__name__")).partition(".")[0]
        if name in _OF_ALL:
            if asking not in _NAME_TYPES and asking not in _IMPORTERS:
                self.names.update((EVERYTHING, name))
        elif (operation := code.co_code[frame.f_lasti]) == _IMPORT_FROM:
            self.imported.add((name, os.path.abspath(code.co_filename)))
        elif asking in _IMPORTERS:  # these look for it before a statement asks
            pass
        elif operation in _LOADS:
            self.loaded.add((name, os.path.abspath(code.co_filename)))
            self._loads[place] = code
            self._count(name)
        else:
            self.names.add(name)

    def _count(self, name: str) -> None:
        """Of what is asked for all the time it is no longer found out who asks."""
        self._counts[name] = count = self._counts.get(name, 0) + 1
        if count > _MOST_LOADS:
            self.names.add(name)


def make_module(name: str, asked: Asked) -> ModuleType:
    """An empty module that notes what is asked of it."""
    known = asked.names
    note = asked.note
    get = ModuleType.__getattribute__

    class Followed(ModuleType):
        def __getattribute__(self, name: str) -> Any:
            if name not in known:
                note(name)
            return get(self, name)

    Followed.__name__ = Followed.__qualname__ = ModuleType.__name__
    Followed.__module__ = ModuleType.__module__
    module = Followed(name)
    asked.modules.append(ref(module))
    return module


def _tells(module: ModuleType) -> bool:
    asking = type(module).__getattribute__
    return getattr(asking, "__module__", None) == __name__
