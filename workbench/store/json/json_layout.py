"""The style of JSON: white space, commas, comments, and the spelling of keys and texts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Literal

from workbench.model.text import measure_common_prefix
from workbench.store.json.json_path import (
    align_lists,
    find_key,
    is_format_key,
    is_user_key,
    to_camel,
    to_snake,
)

# The layout of a list or object: its elements and the white space, commas and comments between them

_TOKEN = re.compile(r"[ \t]+|\r?\n|\r|//[^\r\n]*|\#[^\r\n]*|/\*.*?\*/|,", re.DOTALL)
_LINE_COMMENT = ("//", "#")
_COMMENT = ("//", "#", "/*")


@dataclass
class Element:
    """One element: `lead` precedes it, `post` precedes its comma, `trail` is between the comma and the end of line."""

    body: str
    lead: str = ""
    post: str = ""
    comma: bool = True
    trail: str = ""


@dataclass
class JsonLayout:
    """A layout. `opening` is a comment on the line of the opening bracket, `closing` precedes the closing bracket."""

    opening: str = ""
    elements: list[Element] = field(default_factory=list)
    closing: str = ""

    @classmethod
    def from_gaps(cls, gaps: Sequence[str], bodies: Sequence[str]) -> JsonLayout:
        """Read a layout; `gaps` surround the `bodies`, so there is one more of them."""
        layout = cls()
        layout.opening, lead = _split_line(gaps[0])
        for index, body in enumerate(bodies):
            post, comma, rest = _split_comma(gaps[index + 1])
            if not comma and index == len(bodies) - 1:
                post, rest = _split_line(rest)
            element = Element(body, lead=lead, post=post, comma=comma)
            element.trail, lead = _split_line(rest) if comma else ("", rest)
            layout.elements.append(element)
        layout.closing = lead
        return layout

    def to_gaps(self) -> list[str]:
        """Return the texts around the bodies, safe to join: text after a line comment begins on a new line."""
        gaps: list[str] = []
        gap = self.opening
        for element in self.elements:
            gaps.append(_close_line_comment(_join_safely(gap, element.lead)))
            gap = (_join_safely(element.post, ",") if element.comma else element.post) + element.trail
        gaps.append(_close_line_comment(_join_safely(gap, self.closing)))
        return gaps

    def bodies(self) -> list[str]:
        return [element.body for element in self.elements]

    def insert(
        self, index: int, body: str, *, line_break: str | None, indentation: str, outer: str, space: str
    ) -> None:
        """Insert an element.

        The existing elements show whether each has its own line. For an empty layout, `line_break` says so (None: all
        on one line); `indentation` is that of the new element and `outer` that of the closing bracket. `space`
        separates elements on one line.
        """
        new = Element(body, comma=True)
        if not self.elements:
            self._insert_first(new, line_break=line_break, indentation=indentation, outer=outer)
            return
        new.lead = self.make_lead(index, space=space)
        if index == len(self.elements):
            last = self.elements[-1]
            new.comma = last.comma
            _end_with_comma(last)
        elif index == 0 and not _has_line_break(self.elements[0].lead) and not self.elements[0].lead.strip():
            self.elements[0].lead = space
        self.elements.insert(index, new)

    def remove(self, index: int) -> None:
        """Remove an element. Comments around it stay."""
        removed = self.elements.pop(index)
        left = _collect_comments(removed)
        if index == len(self.elements):
            if self.elements and not removed.comma:
                self.elements[-1].comma = False
            if not self.elements and not left and not self.opening and not self.closing.strip():
                self.closing = ""
            self.closing = left + self.closing
            return
        following = self.elements[index]
        if left:
            following.lead = _join_safely(left, following.lead)
        elif index == 0 and not removed.lead.strip() and not following.lead.strip():
            following.lead = removed.lead

    def move(self, source: int, target: int) -> None:
        """Move an element with its comments to the index `target` of the result."""
        leads = [element.lead for element in self.elements]
        last_has_comma = self.elements[-1].comma
        self.elements.insert(target, self.elements.pop(source))
        if not any(lead.strip() for lead in leads):
            for element, lead in zip(self.elements, leads, strict=True):
                element.lead = lead
        for element in self.elements[:-1]:
            _end_with_comma(element)
        self.elements[-1].comma = last_has_comma

    def has_line_breaks(self, *, default: bool) -> bool:
        """True if the nested lists and objects have several lines; `default` if there are none."""
        filled = [element.body for element in self.elements if element.body[:1] in "{[" and len(element.body) > 2]
        return any(_has_line_break(body) for body in filled) if filled else default

    def _insert_first(self, new: Element, *, line_break: str | None, indentation: str, outer: str) -> None:
        new.comma = False
        if line_break is None and not self.opening and not _has_line_break(self.closing):
            self.closing = self.closing if self.closing.strip() else ""
        else:
            line_break = line_break or "\n"
            new.lead = line_break + indentation
            if not _has_line_break(self.closing):
                self.closing = line_break + outer + self.closing.strip()
        self.elements.append(new)

    def make_lead(self, index: int, *, space: str) -> str:
        """Return the white space before an element that is inserted at `index` of a layout with elements."""
        model = self.elements[min(index, len(self.elements) - 1)].lead
        lead = _last_line(model)
        if _has_line_break(lead):
            return lead
        if index == 0:
            return model if not model.strip() else ""
        leads = [element.lead for element in self.elements[1:]]
        return next((lead for lead in leads if not lead.strip()), space)


def _split_comma(gap: str) -> tuple[str, bool, str]:
    """Split a gap into the text before its comma, whether it has one, and the text after it."""
    for match in _TOKEN.finditer(gap):
        if match.group() == ",":
            return gap[: match.start()], True, gap[match.end() :]
    return "", False, gap


def _split_line(gap: str) -> tuple[str, str]:
    """Split a gap into the comments on its first line, including the space before them, and the rest."""
    end = 0
    for match in _TOKEN.finditer(gap):
        token = match.group()
        if token.startswith(_COMMENT):
            end = match.end()
        elif token[0] in "\r\n":
            return gap[:end], gap[end:]
    return ("", gap) if not _ends_in_line_comment(gap) else (gap[:end], gap[end:])


def _last_line(lead: str) -> str:
    """Return the last line break of a lead with the indentation after it, or ""."""
    start, end = -1, 0
    for match in _TOKEN.finditer(lead):
        token = match.group()
        if token[0] in "\r\n":
            start, end = match.start(), match.end()
        elif token[0] in " \t" and match.start() == end:
            end = match.end()
    return "" if start < 0 else lead[start:end]


def _collect_comments(element: Element) -> str:
    """Return the comments around a removed element, with the space before them, or ""."""
    after = element.post + element.trail
    if after.strip():
        return element.lead + after.strip()
    return element.lead.rstrip() if element.lead.strip() else ""


def _end_with_comma(element: Element) -> None:
    """Add a comma directly after an element, before a comment on its line."""
    if not element.comma:
        element.comma = True
        element.post, element.trail = "", element.post + element.trail


def _join_safely(before: str, after: str) -> str:
    needs_break = _ends_in_line_comment(before) and after and after[0] not in "\r\n"
    return before + ("\n" if needs_break else "") + after


def _close_line_comment(gap: str) -> str:
    """Return the gap so that a value or bracket may follow it."""
    return gap + "\n" if _ends_in_line_comment(gap) else gap


def _ends_in_line_comment(text: str) -> bool:
    if "/" not in text and "#" not in text:
        return False
    last = ""
    for match in _TOKEN.finditer(text):
        last = match.group()
    return last.startswith(_LINE_COMMENT)


def _has_line_break(text: str) -> bool:
    return "\n" in text or "\r" in text


def split_gaps(text: str, spans: Sequence[tuple[int, int]], *, start: int, end: int) -> list[str]:
    """Return the texts around spans of a text, from `start` to `end`."""
    edges = [start, *(edge for span in spans for edge in span), end]
    return [text[left:right] for left, right in list(pairwise(edges))[::2]]


# The style of a text: indentation, line breaks, key style, escapes, spaces. New values follow it

_LINE_BREAK = re.compile(r"\r\n|\n")
_DEEPER_LINE = re.compile(r"^([ \t]*)[^\r\n]*[\[{][ \t]*\r?\n([ \t]*)(?=[^\s])", re.MULTILINE)
_STRING = re.compile(r'"((?:[^"\\\r\n]|\\.)*)"(?:([ \t]*:[ \t]*)(?:([\[{])(\s*)([\]}])?)?)?')
_ITEM_SPACE = re.compile(r'[\]}"\w](,[ \t]*)["\[{\w-]')
_ESCAPED_LETTER = re.compile(r"\\u(?!00[01]|00[7][fF]|[dD][89a-fA-F]|2028|2029)(?!00[2-7])[0-9a-fA-F]{4}")
_SURROGATE = re.compile("[\ud800-\udfff]")

KeyStyle = Literal["snake", "camel"]


@dataclass(frozen=True, kw_only=True)
class JsonStyle:
    """The style of new text.

    `indent` is one step of indentation; None means one line. `inline_keys` are the keys whose lists and objects are on
    one line anyway.
    """

    indent: str | None = "  "
    line_break: str = "\n"
    key_style: KeyStyle | None = None
    only_ascii: bool = False
    colon: str = ": "
    comma: str = ", "
    inline_keys: frozenset[str] = field(default_factory=frozenset)

    def on_one_line(self) -> JsonStyle:
        return replace(self, indent=None)


def detect_style(text: str, *, data: Any, indentation: str = "", default: JsonStyle | None = None) -> JsonStyle:
    """Detect the style of a strict (masked) JSON text with its data; `default` supplies what it does not show.

    `indentation` is that of the text's first line, which may be cut off.
    """
    default = default or JsonStyle(indent=None)
    line_break = _LINE_BREAK.search(text)
    keys = [match for match in _STRING.finditer(text) if match.group(2)]
    item_space = _ITEM_SPACE.search(_STRING.sub(_strip_content, text))
    return JsonStyle(
        indent=_detect_indent(indentation + text) or default.indent,
        line_break=line_break.group() if line_break else default.line_break,
        key_style=detect_key_style(iterate_format_keys(data)) or default.key_style,
        only_ascii=_detect_ascii(text, default=default),
        colon=next((match.group(2) for match in keys), default.colon),
        comma=item_space.group(1) if item_space else default.comma,
        inline_keys=_detect_inline_keys(keys) | default.inline_keys,
    )


def iterate_format_keys(data: Any) -> Iterator[str]:
    """Yield the keys in a value that belong to the format, not to the user."""
    if isinstance(data, dict):
        for key, value in data.items():
            yield key
            if not is_user_key(key):
                yield from iterate_format_keys(value)
    elif isinstance(data, list):
        for item in data:
            yield from iterate_format_keys(item)


def detect_key_style(keys: Iterable[str]) -> KeyStyle | None:
    """Detect the style of keys by those with several words; if both styles occur, the more frequent one."""
    camel = snake = 0
    for key in filter(is_format_key, keys):
        camel += to_snake(key) != key
        snake += to_camel(key) != key
    if camel == snake == 0:
        return None
    return "camel" if camel > snake else "snake"


def to_key_style(key: str, style: KeyStyle | None) -> str:
    """Convert a key of the format to a style; a key of the user, or without a style, is unchanged."""
    if style is None or not is_format_key(key):
        return key
    return to_camel(key) if style == "camel" else to_snake(key)


def write_text(text: str, *, only_ascii: bool) -> str:
    """Return a JSON string literal. Lone surrogates, which UTF-8 cannot encode, are always escaped."""
    literal = json.dumps(text, ensure_ascii=only_ascii)
    return _SURROGATE.sub(lambda match: f"\\u{ord(match.group()):04x}", literal)


def write_value(value: Any, json_style: JsonStyle, *, indentation: str) -> str:
    """Write a JSON value in a style; `indentation` is that of its first line. Raises ValueError for NaN."""
    if isinstance(value, str):
        return write_text(value, only_ascii=json_style.only_ascii)
    if not isinstance(value, dict | list) or not value:
        return json.dumps(value, allow_nan=False)
    inner = indentation + (json_style.indent or "")
    if isinstance(value, dict):
        brackets = "{}"
        parts = [write_member(key, item, json_style, indentation=inner) for key, item in value.items()]
    else:
        brackets = "[]"
        parts = [write_value(item, json_style, indentation=inner) for item in value]
    if json_style.indent is None:
        return brackets[0] + json_style.comma.join(parts) + brackets[1]
    break_in, break_out = json_style.line_break + inner, json_style.line_break + indentation
    return brackets[0] + break_in + f",{break_in}".join(parts) + break_out + brackets[1]


def write_member(key: str, value: Any, json_style: JsonStyle, *, indentation: str) -> str:
    if key in json_style.inline_keys:
        json_style = json_style.on_one_line()
    text = write_value(value, json_style, indentation=indentation)
    return write_text(key, only_ascii=json_style.only_ascii) + json_style.colon + text


def _strip_content(match: re.Match[str]) -> str:
    """Remove the content between the quotes of a string or key."""
    return '""' + match.group()[len(match.group(1)) + 2 :]


def _detect_indent(text: str) -> str | None:
    for match in _DEEPER_LINE.finditer(text):
        outer, inner = match.groups()
        if inner.startswith(outer) and inner != outer:
            return inner[len(outer) :]
    return None


def _detect_ascii(text: str, *, default: JsonStyle) -> bool:
    if not text.isascii():
        return False
    return default.only_ascii or _ESCAPED_LETTER.search(text) is not None


def _detect_inline_keys(keys: list[re.Match[str]]) -> frozenset[str]:
    inline: set[str] = set()
    expanded: set[str] = set()
    for match in keys:
        name, _, bracket, space, closing = match.groups()
        if bracket and not closing:
            (expanded if "\n" in space else inline).add(name)
    return frozenset(inline - expanded)


# The spelling of keys: a new value adopts the keys of the old value, and the style of neighbouring keys


def adopt_spelling(new: Any, old: Any, *, style: KeyStyle | None, free: bool) -> Any:
    """Spell the format's keys of a new value as in the old one, or else in the style of the keys beside them.

    `style` applies if no key shows one. Keys that belong to the user (`free`) are unchanged.
    """
    if free:
        return new
    if isinstance(new, dict):
        return _adopt_object_spelling(new, old if isinstance(old, dict) else {}, style=style)
    if isinstance(new, list):
        return _adopt_list_spelling(new, old if isinstance(old, list) else [], style=style)
    return new


def _adopt_object_spelling(new: dict[str, Any], old: dict[str, Any], *, style: KeyStyle | None) -> dict[str, Any]:
    style = detect_key_style(old) or style
    spelt = {}
    for key, value in new.items():
        spelling = find_key(old, key, free=False)
        inner_old = None if spelling is None else old[spelling]
        if spelling is None:
            spelling = to_key_style(key, style)
        spelt[spelling] = adopt_spelling(value, inner_old, style=style, free=is_user_key(key))
    return spelt


def _adopt_list_spelling(new: list[Any], old: list[Any], *, style: KeyStyle | None) -> list[Any]:
    spelt: list[Any] = []
    for block in align_lists(old, new):
        partners = old[block.old_start : block.old_end]
        for offset, value in enumerate(new[block.new_start : block.new_end]):
            partner = partners[offset] if offset < len(partners) else None
            spelt.append(adopt_spelling(value, partner, style=style, free=False))
    return spelt


# Edits inside a JSON string keep the escapes and characters around the change

# A character as written: a surrogate pair, one \u escape, a short escape, or itself.
_UNIT = re.compile(r"\\u[dD][89abAB]..\\u[dD][c-fC-F]..|\\u....|\\.|[^\\]", re.DOTALL)


def edit_string(literal: str, new: str, *, only_ascii: bool) -> str:
    """Return the literal of `new`, made from the old `literal` by replacing only its middle."""
    old: str = json.loads(literal)
    start = measure_common_prefix(old, new)
    end = measure_common_prefix(old[start:][::-1], new[start:][::-1])
    middle = write_text(new[start : len(new) - end], only_ascii=only_ascii)[1:-1]
    content = literal[1:-1]
    if "\\" not in content:
        return f'"{content[:start]}{middle}{content[len(content) - end :]}"'
    offsets = [match.start() for match in _UNIT.finditer(content)]
    offsets.append(len(content))
    return f'"{content[: offsets[start]]}{middle}{content[offsets[len(offsets) - 1 - end] :]}"'
