"""Cases as data: what a listing shows of one, and the typed case with every fault placed in the data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

from pydantic import BaseModel, ValidationError

from workbench.model.evalset import EvalCase
from workbench.store.documents.frame import DocumentFormat, kind_of
from workbench.store.documents.legacy import case_of_eval, case_of_turns
from workbench.store.documents.misspelt import misspelt_keys
from workbench.store.documents.places import Place, find_key, to_snake
from workbench.store.unusable_values import find_unusable

_EXPECTED = {
    "missing": "a value for it",
    "string_type": "a text",
    "list_type": "a list",
    "dict_type": "an object",
    "model_type": "an object",
    "model_attributes_type": "an object",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "float_type": "a number",
    "float_parsing": "a number",
    "int_type": "a whole number",
    "extra_forbidden": "no key of this name",
}

Model = TypeVar("Model", bound=BaseModel)


class Fault(NamedTuple):
    """Something in a case that is not as the format has it; `place` is counted from the case."""

    place: Place
    found: str
    expected: str


class InvalidData(Exception):
    """Data, of a case say, that cannot be read as what it should be, with all its faults (at least one)."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        super().__init__("; ".join(f"found {fault.found}, expected {fault.expected}" for fault in faults))
        self.faults = tuple(faults)


class Head(NamedTuple):
    """What a listing shows of a case: its id ("" where it has none) and the first fault of its outer shape."""

    eval_id: str
    fault: Fault | None


def read_head(data: Any, *, format: DocumentFormat, eval_id: str, may_be_unusable: bool) -> Head:
    """The head of a case; the case is validated for it, which costs about as much as decoding it.

    `may_be_unusable` says that the text may hold values that cannot be used: only then they are looked for.
    """
    if format is DocumentFormat.LEGACY_TURNS:
        found: Any = eval_id
    elif not isinstance(data, dict):
        found = None
    elif format is DocumentFormat.LEGACY_EVALS:
        found = data.get("name")
    else:
        found = data.get("eval_id", data.get("evalId"))
    unusable = next(find_unusable(data), None) if may_be_unusable else None
    fault = fault_of(data, format=format, eval_id=eval_id) if unusable is None else Fault(*unusable)
    return Head(found if isinstance(found, str) else "", fault)


def fault_of(data: Any, *, format: DocumentFormat, eval_id: str) -> Fault | None:
    """The first fault of a case, None where it can be read."""
    try:
        read_case(data, format=format, eval_id=eval_id)
    except InvalidData as invalid:
        return invalid.faults[0]
    return None


def read_case(data: Any, *, format: DocumentFormat, eval_id: str) -> EvalCase:
    """The typed case; old formats are shown as migrated. `eval_id` names a list of turns, which has no name of its own.

    Raises InvalidData with places in the data as it is in the file.
    """
    if format is DocumentFormat.CURRENT:
        _refuse_wrong_shape(data)
        case = validated(EvalCase, data)
        misspelt = [
            Fault(place, f"the unknown key {place[-1]!r}", f"{meant!r} (did you mean that?)")
            for place, meant in misspelt_keys(case, data)
        ]
        if misspelt:
            raise InvalidData(misspelt)
        return case
    migrated, faults = migrated_case(data, format=format, eval_id=eval_id)
    if faults:
        raise InvalidData(faults)
    return validated(EvalCase, migrated)


def migrated_case(data: Any, *, format: DocumentFormat, eval_id: str) -> tuple[dict[str, Any], list[Fault]]:
    """A case of an old format as data of the current one, and what was wrong with it."""
    faults: list[Fault] = []

    def note(place: Place, found: str, expected: str) -> None:
        faults.append(Fault(place, found, expected))

    if format is DocumentFormat.LEGACY_TURNS:
        return case_of_turns(data, eval_id=eval_id, note=note), faults
    return case_of_eval(data, note=note), faults


def _refuse_wrong_shape(data: Any) -> None:
    """The commonest faults, in plainer words than the types have for them."""
    if not isinstance(data, dict):
        raise InvalidData([Fault((), kind_of(data), "an eval case (an object)")])
    conversation = data.get("conversation")
    scenario = data.get("conversation_scenario", data.get("conversationScenario"))
    if (conversation is None) == (scenario is None):
        found = "neither" if conversation is None else "both"
        raise InvalidData([Fault((), found, "exactly one of conversation and conversation_scenario")])


def validated(model: type[Model], data: Any) -> Model:
    """The data as a type of the format. Raises InvalidData."""
    try:
        return model.model_validate(data)
    except ValidationError as error:
        raise InvalidData(list(_faults(error, data, ()))) from error


def _faults(error: ValidationError, data: Any, place: Place) -> Iterator[Fault]:
    for item in error.errors(include_url=False):
        here = place + _place_in(data, item["loc"])
        inner = item.get("ctx", {}).get("error")
        if isinstance(inner, ValidationError):  # a model validated inside a validator of ours
            yield from _faults(inner, _value_at(data, here[len(place) :]), here)
        else:
            yield _fault(item["type"], item["msg"], item["input"], here, missing=item["loc"][-1:])


def _fault(kind: str, message: str, value: Any, place: Place, *, missing: tuple[int | str, ...]) -> Fault:
    if kind == "missing":
        return Fault(place, "nothing", f"{to_snake(str(missing[0]))}, which it must have")
    if kind == "value_error":
        expected, _, found = message.removeprefix("Value error, ").removeprefix("expected ").partition(", found ")
        return Fault(place, found or kind_of(value), expected)
    return Fault(place, kind_of(value), _EXPECTED.get(kind, message.removeprefix("Input should be ")))


def _place_in(data: Any, location: Sequence[str | int]) -> Place:
    """The steps of a pydantic location that exist in the data, as the data spells them.

    Names of union members, which pydantic puts between the steps, are left out, and so is the key of a missing member.
    """
    place: list[str | int] = []
    for step in location:
        if isinstance(data, dict) and isinstance(step, str):
            key = find_key(data, step, free=False)
            if key is not None:
                place.append(key)
                data = data[key]
        elif isinstance(data, list) and isinstance(step, int) and step < len(data):
            place.append(step)
            data = data[step]
        elif isinstance(data, list) and len(data) == 2 and step == "author":  # the pair [author, parts]
            place.append(0)
            data = data[0]
        elif isinstance(data, list) and len(data) == 2 and step == "parts":
            place.append(1)
            data = data[1]
    return tuple(place)


def _value_at(data: Any, place: Place) -> Any:
    for step in place:
        data = data[step]
    return data
