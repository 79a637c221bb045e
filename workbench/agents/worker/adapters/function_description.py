"""What an agent that is a function says of itself: names, signatures and docstrings of the target's own modules."""

from __future__ import annotations

import inspect
import os
import sys

from ..interception import declaration_of, own_functions
from ..responses import docstring_to_tell

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FunctionType
    from typing import Any, Dict, Iterator, List, Tuple

_MOST_FUNCTIONS = 150  # of a project that holds more, a model would read the rest without gain


def description_of(function: Any, location: str, roots: List[str]) -> Dict[str, Any]:
    """The agent as the answer to `describe`: which of its functions are tools only its author knows, so all public
    ones are told."""
    while hasattr(function, "func") and hasattr(function, "keywords"):  # functools.partial
        function = function.func
    untold: List[str] = []
    declarations = []
    for name, found, bound in _public_functions(roots):
        if found is not getattr(function, "__func__", function):
            declarations.append(_declaration(name, found, bound=bound))
    if len(declarations) > _MOST_FUNCTIONS:
        untold.append(f"of {len(declarations)} public functions the first {_MOST_FUNCTIONS} are told")
    module = sys.modules.get(getattr(function, "__module__", None) or "")
    part = {
        "name": location.partition(":")[2] or location,
        "type": "function",
        "description": docstring_to_tell(function, inspect.getdoc(function) or ""),
        "instruction": (inspect.getdoc(module) or "") if module is not None else "",
        "tools": declarations[:_MOST_FUNCTIONS],
    }
    return {"agents": [part], "untold": untold}


def _public_functions(roots: List[str]) -> Iterator[Tuple[str, FunctionType, bool]]:
    """Each once, where it was written: not where it was imported to."""
    folders = tuple(os.path.abspath(root) + os.sep for root in roots)
    seen = set()
    for name, function, bound, place in own_functions(roots):
        names = place.partition(":")[2].split(".")
        if any(part.startswith(("_", "<")) for part in (name, *names)) or id(function) in seen:
            continue
        home = getattr(sys.modules.get(function.__module__), "__file__", None) or ""
        if home.startswith(folders):  # where it was written, a decorator of a library or not
            seen.add(id(function))
            yield name, function, bound


def _declaration(name: str, function: FunctionType, *, bound: bool) -> Dict[str, Any]:
    try:
        parameters = list(inspect.signature(function).parameters.values())
        declaration = declaration_of(name, function, parameters[1:] if bound else parameters)
    except Exception:  # annotations and defaults are objects of the user's, which may do anything
        declaration = {"name": name, "description": inspect.getdoc(function)}
    return {key: value for key, value in declaration.items() if value not in ("", None)}
