"""Keys that are all but those of the format: an expectation under a misspelt key would expect nothing, and pass.

Other unknown keys are whoever's they are: kept, and named by `eval-set validate` where ADK would refuse them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any

from pydantic import BaseModel

from workbench.model.evalset import EvalCase
from workbench.store.documents.places import Place, find_key, to_snake

_ALIKE = 0.85


def misspelt_keys(case: EvalCase, data: Mapping[str, Any]) -> Iterator[tuple[Place, str]]:
    """The places of misspelt keys in a case that was read from `data`, each with the key that was meant.

    Looked at are the objects whose members are expectations: the case, its turns and their intermediate data.
    """
    yield from _misspelt(case, ())
    for index, turn in enumerate(case.conversation or ()):
        place: Place = ("conversation", index)
        yield from _misspelt(turn, place)
        if turn.intermediate_data is not None:
            key = find_key(data["conversation"][index], "intermediate_data", free=False)
            yield from _misspelt(turn.intermediate_data, (*place, key or "intermediate_data"))


def _misspelt(model: BaseModel, place: Place) -> Iterator[tuple[Place, str]]:
    for key in model.model_extra or ():
        name = to_snake(key)
        absent = [field for field in type(model).model_fields if field not in model.model_fields_set]
        for meant in get_close_matches(name.casefold(), absent, n=1, cutoff=_ALIKE):
            if not name.startswith(f"{meant}_"):  # `conversation_id` is a name of its own
                yield (*place, key), meant
