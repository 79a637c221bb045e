"""Layout of a list or object: its elements and the white space, commas and comments between them.

Elements are opaque texts, so that the same rules hold for the values of a list, the members of an object and the cases
of a file. A comment on the line of an element belongs to it, comments on lines of their own belong to what follows
them, and no operation drops one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

_TOKEN = re.compile(r"[ \t]+|\r?\n|\r|//[^\r\n]*|\#[^\r\n]*|/\*.*?\*/|,", re.DOTALL)
_LINE_COMMENT = ("//", "#")
_COMMENT = ("//", "#", "/*")


@dataclass
class Element:
    """One element: `lead` before it, `post` between it and its comma, `trail` between the comma and the end of line."""

    body: str
    lead: str = ""
    post: str = ""
    comma: bool = True
    trail: str = ""


@dataclass
class Layout:
    """`opening` is a comment on the line of the opening bracket, `closing` what stands before the closing one."""

    opening: str = ""
    elements: list[Element] = field(default_factory=list)
    closing: str = ""

    @classmethod
    def of_gaps(cls, gaps: Sequence[str], bodies: Sequence[str]) -> Layout:
        """Read a layout; `gaps` stand around the `bodies` and are one more than these."""
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
        """The texts around the bodies, safe to join: what follows a line comment begins on a new line."""
        gaps: list[str] = []
        gap = self.opening
        for element in self.elements:
            gaps.append(_closed(_safe(gap, element.lead)))
            gap = (_safe(element.post, ",") if element.comma else element.post) + element.trail
        gaps.append(_closed(_safe(gap, self.closing)))
        return gaps

    def bodies(self) -> list[str]:
        """The elements in order."""
        return [element.body for element in self.elements]

    def insert(
        self, index: int, body: str, *, line_break: str | None, indentation: str, outer: str, space: str
    ) -> None:
        """Insert an element.

        A layout that has elements shows by them whether each has its own line. For an empty one `line_break` says so
        (None: all on one line), `indentation` being the new element's and `outer` that of the closing bracket. `space`
        separates elements on one line.
        """
        new = Element(body, comma=True)
        if not self.elements:
            self._insert_first(new, line_break=line_break, indentation=indentation, outer=outer)
            return
        new.lead = self.lead_for(index, space=space)
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
        left = _comments_of(removed)
        if index == len(self.elements):
            if self.elements and not removed.comma:
                self.elements[-1].comma = False
            if not self.elements and not left and not self.opening and not self.closing.strip():
                self.closing = ""
            self.closing = left + self.closing
            return
        following = self.elements[index]
        if left:
            following.lead = _safe(left, following.lead)
        elif index == 0 and not removed.lead.strip() and not following.lead.strip():
            following.lead = removed.lead

    def move(self, source: int, target: int) -> None:
        """Move an element, its comments with it, so that it stands at `target` afterwards."""
        leads = [element.lead for element in self.elements]
        last_has_comma = self.elements[-1].comma
        self.elements.insert(target, self.elements.pop(source))
        if not any(lead.strip() for lead in leads):
            for element, lead in zip(self.elements, leads, strict=True):
                element.lead = lead
        for element in self.elements[:-1]:
            _end_with_comma(element)
        self.elements[-1].comma = last_has_comma

    def shows_line_breaks(self, *, default: bool) -> bool:
        """Whether the lists and objects among the elements have lines of their own; `default` where there is none."""
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

    def lead_for(self, index: int, *, space: str) -> str:
        """The white space before an element that is inserted at `index` of a layout that has elements."""
        model = self.elements[min(index, len(self.elements) - 1)].lead
        lead = _last_line(model)
        if _has_line_break(lead):
            return lead
        if index == 0:
            return model if not model.strip() else ""
        leads = [element.lead for element in self.elements[1:]]
        return next((lead for lead in leads if not lead.strip()), space)


def _split_comma(gap: str) -> tuple[str, bool, str]:
    """A gap as what stands before its comma, whether there is one, and what stands after (all of it, without one)."""
    for match in _TOKEN.finditer(gap):
        if match.group() == ",":
            return gap[: match.start()], True, gap[match.end() :]
    return "", False, gap


def _split_line(gap: str) -> tuple[str, str]:
    """A gap as the comments on its first line, with the space before them, and the rest from the line break on."""
    end = 0
    for match in _TOKEN.finditer(gap):
        token = match.group()
        if token.startswith(_COMMENT):
            end = match.end()
        elif token[0] in "\r\n":
            return gap[:end], gap[end:]
    return ("", gap) if not _ends_in_line_comment(gap) else (gap[:end], gap[end:])


def _last_line(lead: str) -> str:
    """The last line break of a lead with the indentation after it, "" where it has none."""
    start, end = -1, 0
    for match in _TOKEN.finditer(lead):
        token = match.group()
        if token[0] in "\r\n":
            start, end = match.start(), match.end()
        elif token[0] in " \t" and match.start() == end:
            end = match.end()
    return "" if start < 0 else lead[start:end]


def _comments_of(element: Element) -> str:
    """The comments around an element that is taken away, with the space before them; "" where there are none."""
    after = element.post + element.trail
    if after.strip():
        return element.lead + after.strip()
    return element.lead.rstrip() if element.lead.strip() else ""


def _end_with_comma(element: Element) -> None:
    """Give an element a comma: directly after it, before a comment that follows on its line."""
    if not element.comma:
        element.comma = True
        element.post, element.trail = "", element.post + element.trail


def _safe(before: str, after: str) -> str:
    needs_break = _ends_in_line_comment(before) and after and after[0] not in "\r\n"
    return before + ("\n" if needs_break else "") + after


def _closed(gap: str) -> str:
    """A gap after which a value or bracket may follow at once."""
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


def gaps_between(text: str, spans: Sequence[tuple[int, int]], *, start: int, end: int) -> list[str]:
    """The texts around spans of a text, from `start` to `end`."""
    edges = [start, *(edge for span in spans for edge in span), end]
    return [text[left:right] for left, right in list(pairwise(edges))[::2]]
