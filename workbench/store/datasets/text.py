"""The text of files of rows: a row with bytes that are no text does not hide the others."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from workbench.store.errors import StoreError
from workbench.store.files import decode_utf8

_NO_TEXT = re.compile("[\udc80-\udcff]")


def text_of(path: Path | str, data: bytes) -> str:
    """The text of a file of rows, in which bytes that are not UTF-8 are what `no_text_in` finds.

    Raises StoreError where the whole file is of another kind.
    """
    try:
        text = decode_utf8(path, data)
    except StoreError as error:
        if error.line is None:
            raise
        text = data.decode("utf-8", "surrogateescape")
    return text.removeprefix("\ufeff")


class NoText(NamedTuple):
    """A byte that is not UTF-8: its offset in the text, and what it is in words."""

    offset: int
    found: str


def no_text_in(text: str) -> NoText | None:
    """The first byte in a text that is not UTF-8."""
    match = None if text.isascii() else _NO_TEXT.search(text)
    return None if match is None else NoText(match.start(), f"the byte 0x{ord(match[0]) - 0xDC00:02x}")
