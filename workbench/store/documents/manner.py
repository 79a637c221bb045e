"""The manner in which a text is written: indentation, line breaks, key style, escapes, spaces. New values follow it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from workbench.store.documents.places import is_format_key, is_free, to_camel, to_snake

_LINE_BREAK = re.compile(r"\r\n|\n")
_DEEPER_LINE = re.compile(r"^([ \t]*)[^\r\n]*[\[{][ \t]*\r?\n([ \t]*)(?=[^\s])", re.MULTILINE)
_STRING = re.compile(r'"((?:[^"\\\r\n]|\\.)*)"(?:([ \t]*:[ \t]*)(?:([\[{])(\s*)([\]}])?)?)?')
_ITEM_SPACE = re.compile(r'[\]}"\w](,[ \t]*)["\[{\w-]')
_ESCAPED_LETTER = re.compile(r"\\u(?!00[01]|00[7][fF]|[dD][89a-fA-F]|2028|2029)(?!00[2-7])[0-9a-fA-F]{4}")
_SURROGATE = re.compile("[\ud800-\udfff]")

KeyStyle = Literal["snake", "camel"]


@dataclass(frozen=True, kw_only=True)
class Manner:
    """How new text is written.

    `indent` is one step of indentation, None where everything stands on one line; `inline_keys` are the keys whose
    lists and objects stand on one line all the same.
    """

    indent: str | None = "  "
    line_break: str = "\n"
    key_style: KeyStyle | None = None
    only_ascii: bool = False
    colon: str = ": "
    comma: str = ", "
    inline_keys: frozenset[str] = field(default_factory=frozenset)

    def on_one_line(self) -> Manner:
        """The same without line breaks."""
        return replace(self, indent=None)


def manner_of(text: str, *, data: Any, indentation: str = "", default: Manner | None = None) -> Manner:
    """The manner of a strict (masked) JSON text and the data it holds; what it does not show is as in `default`.

    `indentation` is that of the text's first line, which may be cut off.
    """
    default = default or Manner(indent=None)
    line_break = _LINE_BREAK.search(text)
    keys = [match for match in _STRING.finditer(text) if match.group(2)]
    item_space = _ITEM_SPACE.search(_STRING.sub(_without_content, text))
    return Manner(
        indent=_indent(indentation + text) or default.indent,
        line_break=line_break.group() if line_break else default.line_break,
        key_style=key_style_of(format_keys(data)) or default.key_style,
        only_ascii=_only_ascii(text, default=default),
        colon=next((match.group(2) for match in keys), default.colon),
        comma=item_space.group(1) if item_space else default.comma,
        inline_keys=_inline_keys(keys) | default.inline_keys,
    )


def format_keys(data: Any) -> Iterator[str]:
    """The keys in a value that belong to the format, not to the user."""
    if isinstance(data, dict):
        for key, value in data.items():
            yield key
            if not is_free(key):
                yield from format_keys(value)
    elif isinstance(data, list):
        for item in data:
            yield from format_keys(item)


def key_style_of(keys: Iterable[str]) -> KeyStyle | None:
    """The style of the keys, told by those with more than one word; where both occur, the more frequent one."""
    camel = snake = 0
    for key in filter(is_format_key, keys):
        camel += to_snake(key) != key
        snake += to_camel(key) != key
    if camel == snake == 0:
        return None
    return "camel" if camel > snake else "snake"


def styled_key(key: str, style: KeyStyle | None) -> str:
    """A key in a style where the format defines it; as it is where there is no style, or it is the user's."""
    if style is None or not is_format_key(key):
        return key
    return to_camel(key) if style == "camel" else to_snake(key)


def write_text(text: str, *, only_ascii: bool) -> str:
    """A JSON string literal. Halves of surrogate pairs, which UTF-8 cannot hold, are always escaped."""
    literal = json.dumps(text, ensure_ascii=only_ascii)
    return _SURROGATE.sub(lambda match: f"\\u{ord(match.group()):04x}", literal)


def write_value(value: Any, manner: Manner, *, indentation: str) -> str:
    """A JSON value in a manner; `indentation` is that of the line it begins on. Raises ValueError for NaN."""
    if isinstance(value, str):
        return write_text(value, only_ascii=manner.only_ascii)
    if not isinstance(value, dict | list) or not value:
        return json.dumps(value, allow_nan=False)
    inner = indentation + (manner.indent or "")
    if isinstance(value, dict):
        brackets = "{}"
        parts = [write_member(key, item, manner, indentation=inner) for key, item in value.items()]
    else:
        brackets = "[]"
        parts = [write_value(item, manner, indentation=inner) for item in value]
    if manner.indent is None:
        return brackets[0] + manner.comma.join(parts) + brackets[1]
    break_in, break_out = manner.line_break + inner, manner.line_break + indentation
    return brackets[0] + break_in + f",{break_in}".join(parts) + break_out + brackets[1]


def write_member(key: str, value: Any, manner: Manner, *, indentation: str) -> str:
    """A member of an object, key and value."""
    if key in manner.inline_keys:
        manner = manner.on_one_line()
    text = write_value(value, manner, indentation=indentation)
    return write_text(key, only_ascii=manner.only_ascii) + manner.colon + text


def _without_content(match: re.Match[str]) -> str:
    """A string, or a key with what follows it, with nothing between its quotes."""
    return '""' + match.group()[len(match.group(1)) + 2 :]


def _indent(text: str) -> str | None:
    for match in _DEEPER_LINE.finditer(text):
        outer, inner = match.groups()
        if inner.startswith(outer) and inner != outer:
            return inner[len(outer) :]
    return None


def _only_ascii(text: str, *, default: Manner) -> bool:
    if not text.isascii():
        return False
    return default.only_ascii or _ESCAPED_LETTER.search(text) is not None


def _inline_keys(keys: list[re.Match[str]]) -> frozenset[str]:
    inline: set[str] = set()
    expanded: set[str] = set()
    for match in keys:
        name, _, bracket, space, closing = match.groups()
        if bracket and not closing:
            (expanded if "\n" in space else inline).add(name)
    return frozenset(inline - expanded)
