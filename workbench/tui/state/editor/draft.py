"""Typed text and the value it stands for: which types a value may have, and what is wrong with what was typed."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, NoReturn

from workbench.model.text import neutralise, one_line
from workbench.tui.state.editor.operations import Slot
from workbench.tui.state.editor.rows import ABSENT, Input

MOST_TYPED = 20_000
"""Characters that are edited in the pane. A longer text is for the user's own editor, which does not stall on it."""


class Form(StrEnum):
    """How typed text is read."""

    TEXT = "text"
    NUMBER = "number"
    TRUTH = "true or false"
    NULL = "null"
    JSON = "JSON"


_FORMS = {
    Input.LINE: (Form.TEXT, Form.JSON),
    Input.TEXT: (Form.TEXT, Form.JSON),
    Input.NUMBER: (Form.NUMBER,),
    Input.VALUE: (Form.TEXT, Form.NUMBER, Form.TRUTH, Form.NULL, Form.JSON),
    Input.JSON: (Form.JSON,),
}


_EXPECTED = {
    "Expecting value": "a value",
    "Extra data": "nothing after the value",
    "Expecting ',' delimiter": "a comma or the closing bracket",
    "Expecting ':' delimiter": "a colon after the key",
    "Expecting property name enclosed in double quotes": "a key in double quotes",
    "Illegal trailing comma before end of object": "a key in double quotes",
    "Illegal trailing comma before end of array": "a value",
    "Unterminated string starting at": "a closing quote",
    "Invalid control character at": "no raw control character in a text; a line break is written \\n",
}
"""What the standard library's decoder means by its messages."""


class Invalid(Exception):
    """The typed text stands for no value that may stand there; the text says where and why."""


@dataclass(frozen=True, slots=True)
class Draft:
    """What has been typed for a slot and is not applied yet.

    `begun_from` is the value that was there at the start, ABSENT where something new is typed.
    """

    slot: Slot
    form: Form
    text: str
    begun_from: Any

    @classmethod
    def of(cls, slot: Slot, value: Any) -> Draft:
        """The draft that one begins with: the value as it is, nothing where it is ABSENT."""
        form = _form_of(value, slot.input)
        return cls(slot, form, written(value, form), value)

    @property
    def is_untouched(self) -> bool:
        """Whether nothing was typed: throwing it away loses nothing."""
        begun = Draft.of(self.slot, self.begun_from)
        return (self.text, self.form) == (begun.text, begun.form)

    @property
    def is_new(self) -> bool:
        """Whether applying it adds something, however little was typed."""
        return self.begun_from is ABSENT

    @property
    def is_one_line(self) -> bool:
        """Whether enter ends the typing; elsewhere it begins a new line."""
        if self.form is Form.JSON:
            return self.slot.input is Input.LINE
        if self.form is Form.TEXT:
            return self.slot.input is not Input.TEXT and "\n" not in self.text
        return True

    @property
    def is_too_long(self) -> bool:
        """Whether it is more than can be edited in the pane."""
        return len(self.text) > MOST_TYPED

    @property
    def problem(self) -> str | None:
        """What is wrong with it by itself, whatever the case holds."""
        try:
            self.value()
        except Invalid as invalid:
            return str(invalid)
        return None

    def typed(self, text: str) -> Draft:
        """The draft with other text."""
        return replace(self, text=text)

    def next_form(self) -> Draft:
        """The same read as the next type that the slot allows; what is typed is carried over where it can be."""
        forms = _FORMS[self.slot.input]
        form = forms[(forms.index(self.form) + 1) % len(forms)]
        return replace(self, form=form, text=_carried_over(self.text, self.form, form))

    def value(self) -> Any:
        """What was typed, as a value. Raises Invalid."""
        value = read(self.text, self.form)
        if self.slot.input in (Input.LINE, Input.TEXT) and not isinstance(value, str):
            raise Invalid('expected a text, in quotes: "…"')
        if self.slot.input is Input.LINE and "\n" in value and self.form is Form.TEXT:
            raise Invalid("expected one line")
        return value


def read(text: str, form: Form) -> Any:
    """The value that a text stands for. Raises Invalid."""
    match form:
        case Form.TEXT:
            return text
        case Form.NUMBER:
            return _number(text)
        case Form.TRUTH:
            if text.strip() not in ("true", "false"):
                raise Invalid(f"found {_quoted(text)}, expected true or false")
            return text.strip() == "true"
        case Form.NULL:
            if text.strip() not in ("", "null"):
                raise Invalid(f"found {_quoted(text)}, expected null")
            return None
        case Form.JSON:
            return _json(text)


def written(value: Any, form: Form) -> str:
    """A value as it is typed."""
    if value is ABSENT:
        return ""
    if form is Form.TEXT:
        return value if isinstance(value, str) else ""
    if form is Form.JSON or not isinstance(value, str):
        return json_text(value)
    return value


def json_text(value: Any) -> str:
    """JSON to read and edit; characters that a terminal would obey are escaped."""
    text = json.dumps(value, ensure_ascii=False, indent=2)
    return text if neutralise(text) == text else json.dumps(value, indent=2)


def is_plain(text: str) -> bool:
    """Whether a text can be typed as it is: no control characters but line feeds, which a text field would change."""
    return "\t" not in text and "\r" not in text and neutralise(text) == text


def is_whole(text: str) -> bool:
    """Whether a file can hold a text: JSON may hold half a character (a lone surrogate), UTF-8 cannot."""
    return text == text.encode(errors="replace").decode()


def _form_of(value: Any, input: Input) -> Form:
    if input is Input.JSON:
        return Form.JSON
    if input is Input.NUMBER:
        return Form.NUMBER
    if isinstance(value, str):
        return Form.TEXT if is_plain(value) and (input is not Input.LINE or "\n" not in value) else Form.JSON
    if value is None:
        return Form.NULL
    if isinstance(value, bool):
        return Form.TRUTH
    if isinstance(value, int | float):
        return Form.NUMBER
    return Form.TEXT if value is ABSENT else Form.JSON


def _carried_over(text: str, old: Form, new: Form) -> str:
    """The text for another type: what it stands for, where that is of the type, else the text itself."""
    try:
        value = read(text, old)
    except Invalid:
        return text
    if new is Form.JSON:
        return json_text(value)
    if new is Form.TEXT and isinstance(value, str):
        return value if is_plain(value) else text
    if new is Form.NULL:
        return text if text.strip() else "null"
    return text


def _number(text: str) -> int | float:
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise Invalid(f"found {_quoted(text)}, expected a number such as 3 or -0.5")
    return value


def _json(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=_no_constant, object_pairs_hook=_each_key_once)
    except json.JSONDecodeError as error:
        raise Invalid(f"line {error.lineno}, column {error.colno}: {_in_words(error)}") from error
    except RecursionError as error:
        raise Invalid("the JSON is nested too deeply") from error


def _no_constant(name: str) -> NoReturn:
    raise Invalid(f"{name} is no number that JSON has")


def _each_key_once(members: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in members:
        if key in found:
            raise Invalid(f"the key {_quoted(key)} stands twice in its object")
        found[key] = value
    return found


def _in_words(error: json.JSONDecodeError) -> str:
    found = error.doc[error.pos : error.pos + 1]
    expected = _EXPECTED.get(error.msg, error.msg)
    return f"found {_quoted(found) if found else 'the end'}, expected {expected}"


def _quoted(text: str) -> str:
    return f'"{one_line(text, width=30)}"' if text.strip() else "nothing"
