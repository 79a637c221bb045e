"""Edits inside one value of a file, made in its text: only the characters of the change are replaced.

A `Fragment` is the text of a case, or of an eval set without its cases. Every edit returns the new text. The text is
parsed again and compared with the intended value before it is returned, so that a fault in the handling of white space
and comments cannot change the meaning of a file.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from workbench.store.json.json_layout import (
    JsonLayout,
    JsonStyle,
    adopt_spelling,
    detect_style,
    edit_string,
    split_gaps,
    write_member,
    write_text,
    write_value,
)
from workbench.store.json.json_path import (
    Member,
    Place,
    align_lists,
    find_key,
    find_member,
    is_same_json,
    is_user_key,
    list_members,
)
from workbench.store.json.json_text import BrokenJson, decode_tolerantly, decode_value, skip_space

_OPENS_A_LINE = re.compile(r'[ \t]*("(?:[^"\\]|\\.)*"[ \t]*:[ \t]*)?[\[{]*')


class WrongPlace(Exception):
    """A place does not exist in the value; `place` is the existing part of it."""

    def __init__(self, place: Place, *, found: str, expected: str) -> None:
        super().__init__(f"found {found}, expected {expected}")
        self.place = place
        self.found = found
        self.expected = expected


class UnsafeEdit(Exception):
    """The edited text would not have the intended value; nothing was changed."""


@dataclass(frozen=True)
class _Node:
    """A value in the text: its span, key and indentation. `free`: its keys belong to the user."""

    start: int
    end: int
    value: Any
    key: str | int
    indentation: str
    free: bool


class Fragment:
    """The text of one JSON value, and the style of the file around it."""

    def __init__(self, text: str, *, indentation: str = "", default: JsonStyle | None = None) -> None:
        """`indentation` is that of the first line of the text. Raises BrokenJson."""
        self.text = text
        self.data, masked = decode_tolerantly(text)
        self._strict = masked.text
        self._indentation = indentation
        self.json_style = detect_style(self._strict, data=self.data, indentation=indentation, default=default)

    def set_value(self, place: Place, value: Any) -> str:
        """Replace the value at a place; missing keys, and objects above them, are added.

        A new list or object is compared with the old one, and only differences are written.
        """
        node, missing = self._find_deepest(place)
        new = _to_plain_json(value)
        if missing:
            if not isinstance(node.value, dict | None) or not all(isinstance(step, str) for step in missing):
                raise _make_missing_error(place, missing)
            for step in reversed(missing[1:]):
                new = {step: new}
            new = {**(node.value or {}), missing[0]: new}
        new = adopt_spelling(new, node.value, style=self.json_style.key_style, free=node.free)
        return self._verify(node, self._merge(node, new), new)

    def insert_item(self, place: Place, index: int, value: Any) -> str:
        """Insert a value into the list at a place."""
        node = self._find_list(place)
        if not 0 <= index <= len(node.value):
            raise WrongPlace(place, found=f"index {index}", expected=f"0 to {len(node.value)}")
        new = adopt_spelling(_to_plain_json(value), None, style=self.json_style.key_style, free=node.free)
        layout = self._layout(node)
        self._insert(layout, node, index, new)
        return self._verify(
            node, _join_layout(node, layout, self.text), [*node.value[:index], new, *node.value[index:]]
        )

    def remove(self, place: Place) -> str:
        """Remove the member or item at a place."""
        if not place:
            raise WrongPlace((), found="the whole value", expected="a member or an item of it")
        if missing := self._find_deepest(place)[1]:
            raise _make_missing_error(place, missing)
        node = self._find_deepest(place[:-1])[0]
        if isinstance(node.value, list):
            new: Any = [item for index, item in enumerate(node.value) if index != place[-1]]
        else:
            spelling = find_key(node.value, str(place[-1]), free=node.free)
            new = {key: item for key, item in node.value.items() if key != spelling}
        return self._verify(node, self._merge(node, new), new)

    def rename(self, place: Place, key: str) -> str:
        """Rename the key of the member at a place to an unused key; its position is unchanged."""
        node, missing = self._find_deepest(place[:-1])
        if not place or missing or not isinstance(node.value, dict):
            raise WrongPlace(place[:-1], found="no object", expected="an object")
        member = find_member(list_members(self._strict, node.start)[0], place[-1], free=node.free)
        if member is None:
            raise _make_missing_error(place, place[-1:])
        if find_key(node.value, key, free=node.free) not in (None, member.key):
            raise WrongPlace(place[:-1], found=f"the existing key {key}", expected="a new key")
        _, end = decode_value(self._strict, member.key_start)
        literal = write_text(key, only_ascii=self.json_style.only_ascii)
        text = self.text[node.start : member.key_start] + literal + self.text[end : node.end]
        new = {key if name == member.key else name: value for name, value in node.value.items()}
        return self._verify(node, text, new)

    def move_item(self, place: Place, source: int, target: int) -> str:
        """Move an item of the list at a place to the index `target` of the result."""
        node = self._find_list(place)
        for index in (source, target):
            if not 0 <= index < len(node.value):
                raise WrongPlace(place, found=f"index {index}", expected=f"0 to {len(node.value) - 1}")
        layout = self._layout(node)
        layout.move(source, target)
        new = list(node.value)
        new.insert(target, new.pop(source))
        return self._verify(node, _join_layout(node, layout, self.text), new)

    def _find_deepest(self, place: Place) -> tuple[_Node, Place]:
        """Return the value at a place or the nearest one above it, and the missing steps."""
        start = skip_space(self._strict, 0)
        value, end = decode_value(self._strict, start)
        node = _Node(start, end, value, "", self._indentation, free=False)
        for depth, step in enumerate(place):
            if not isinstance(node.value, dict | list):
                return node, place[depth:]
            member = find_member(list_members(self._strict, node.start)[0], step, free=node.free)
            if member is None:
                return node, place[depth:]
            node = self._make_child(node, member)
        return node, ()

    def _make_child(self, node: _Node, member: Member) -> _Node:
        return _Node(
            member.start,
            member.end,
            node.value[member.key],
            member.key,
            self._get_indentation(member.start),
            node.free or is_user_key(member.key),
        )

    def _find_list(self, place: Place) -> _Node:
        node, missing = self._find_deepest(place)
        if missing or not isinstance(node.value, list):
            raise WrongPlace(place, found="no list", expected="a list")
        return node

    def _get_indentation(self, offset: int) -> str:
        line_start = self.text.rfind("\n", 0, offset) + 1
        if line_start == 0:
            return self._indentation
        line = self.text[line_start:offset]
        return line[: len(line) - len(line.lstrip(" \t"))]

    def _merge(self, node: _Node, new: Any) -> str:
        """Return the text of a value with the smallest change that makes it `new`."""
        text = self.text[node.start : node.end]
        old = node.value
        if is_same_json(old, new):
            return text
        if isinstance(old, str) and isinstance(new, str):
            return edit_string(text, new, only_ascii=self.json_style.only_ascii)
        if isinstance(old, dict) and isinstance(new, dict):
            return self._merge_object(node, new)
        if isinstance(old, list) and isinstance(new, list):
            return self._merge_list(node, new)
        was_on_one_line = isinstance(old, dict | list) and old and "\n" not in text
        json_style = self.json_style.on_one_line() if was_on_one_line or not self._may_break(node) else self.json_style
        return write_value(new, json_style, indentation=node.indentation)

    def _merge_object(self, node: _Node, new: dict[str, Any]) -> str:
        found = list_members(self._strict, node.start)[0]
        layout = self._layout(node)
        last = {member.key: index for index, member in enumerate(found)}  # the last of duplicate keys counts
        for index in reversed(range(len(found))):
            member = found[index]
            if member.key not in new:
                layout.remove(index)
            elif last[member.key] == index:
                key = self.text[member.key_start : member.start]
                layout.elements[index].body = key + self._merge(self._make_child(node, member), new[str(member.key)])
        for key, value in new.items():
            if key not in last:
                self._insert(layout, node, len(layout.elements), value, key=key)
        return _join_layout(node, layout, self.text)

    def _merge_list(self, node: _Node, new: list[Any]) -> str:
        found = list_members(self._strict, node.start)[0]
        layout = self._layout(node)
        for block in reversed(align_lists(node.value, new)):
            changed = min(block.old_end - block.old_start, block.new_end - block.new_start)
            for index in reversed(range(block.old_start + changed, block.old_end)):
                layout.remove(index)
            for offset, value in enumerate(new[block.new_start + changed : block.new_end]):
                self._insert(layout, node, block.old_start + changed + offset, value)
            for offset in range(changed):
                child = self._make_child(node, found[block.old_start + offset])
                layout.elements[block.old_start + offset].body = self._merge(child, new[block.new_start + offset])
        return _join_layout(node, layout, self.text)

    def _layout(self, node: _Node) -> JsonLayout:
        found = list_members(self._strict, node.start)[0]
        spans = [(member.start if member.key_start < 0 else member.key_start, member.end) for member in found]
        gaps = split_gaps(self.text, spans, start=node.start + 1, end=node.end - 1)
        return JsonLayout.from_gaps(gaps, [self.text[start:end] for start, end in spans])

    def _insert(self, layout: JsonLayout, node: _Node, index: int, value: Any, *, key: str | None = None) -> None:
        """Write a new item (or a member, with a `key`) in the style of its neighbours."""
        json_style = self.json_style
        space = json_style.comma[1:]
        if layout.elements:
            lead = layout.make_lead(index, space=space)
            own_line = "\n" in lead
            indentation = lead.rpartition("\n")[2] if own_line else node.indentation
            if not (own_line if key is not None else layout.has_line_breaks(default=own_line)):
                json_style = json_style.on_one_line()
        else:
            own_line = self._may_break(node)
            indentation = node.indentation + (json_style.indent or "" if own_line else "")
            json_style = json_style if own_line else json_style.on_one_line()
        if key is None:
            body = write_value(value, json_style, indentation=indentation)
        else:
            body = write_member(key, value, json_style, indentation=indentation)
        layout.insert(
            index,
            body,
            line_break=json_style.line_break if own_line else None,
            indentation=indentation,
            outer=node.indentation,
            space=space,
        )

    def _may_break(self, node: _Node) -> bool:
        """True if a list or object at a node may have several lines."""
        if self.json_style.indent is None or node.key in self.json_style.inline_keys:
            return False
        line_start = self.text.rfind("\n", 0, node.start) + 1
        return _OPENS_A_LINE.fullmatch(self.text[line_start : node.start]) is not None

    def _verify(self, node: _Node, text: str, value: Any) -> str:
        """Return the whole text with a value replaced. Raises UnsafeEdit if it does not have that value when parsed."""
        whole = self.text[: node.start] + text + self.text[node.end :]
        before, after = self._strict[: node.start], self._strict[node.end :]
        try:
            read = decode_tolerantly(whole)[0]
        except BrokenJson as broken:
            raise UnsafeEdit from broken
        expected = json.loads(f"{before}{json.dumps(value)}{after}")
        if not is_same_json(read, expected):
            raise UnsafeEdit
        return whole


def _join_layout(node: _Node, layout: JsonLayout, text: str) -> str:
    gaps = layout.to_gaps()
    parts = [text[node.start], gaps[0]]
    for body, gap in zip(layout.bodies(), gaps[1:], strict=True):
        parts += (body, gap)
    return "".join([*parts, text[node.end - 1]])


def _to_plain_json(value: Any) -> Any:
    """Convert a value to plain JSON: tuples become lists, keys become texts."""
    return json.loads(json.dumps(value))


def _make_missing_error(place: Place, missing: Place) -> WrongPlace:
    there = place[: len(place) - len(missing)]
    step = missing[0]
    return WrongPlace(
        there, found="nothing", expected=f"an item {step}" if isinstance(step, int) else f"the key {step}"
    )
