"""Parser of `.env` files, compatible with python-dotenv: quotes, escapes, `export`, comments, several lines,
`${NAME}`."""

from __future__ import annotations

import os
import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Iterable, Mapping, Match

_BINDING = re.compile(
    r"""
    ^[ \t]*(?:export[ \t]+)?
    (?: '(?P<quoted_key>[^'\n]+)' | (?P<key>[^=\#\s'"]+) ) [ \t]*=[ \t]*
    (?: '(?P<single>(?:\\'|[^'])*)' | "(?P<double>(?:\\"|[^"])*)" | (?P<plain>(?!['"])[^\n]*) )
    [ \t]*(?:\#[^\n]*)?$
    """,
    re.VERBOSE | re.MULTILINE,
)
_COMMENT = re.compile(r"(?<!\s)\s+\#.*")
_SINGLE_ESCAPE = re.compile(r"\\([\\'])")
_DOUBLE_ESCAPE = re.compile(r"\\([\\'\"abfnrtv])")
_ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_VARIABLE = re.compile(r"\$\{(?P<name>[^}:]*)(?::-(?P<default>[^}]*))?\}")


def parse(text: str, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of a `.env` text. `${NAME}` is looked up in `environ`, then in earlier lines, else it is
    empty."""
    found: dict[str, str] = {}

    def expand(match: Match[str]) -> str:
        name = match["name"]
        return environ.get(name, found.get(name, match["default"] or ""))

    for binding in _BINDING.finditer(text.replace("\r\n", "\n").replace("\r", "\n")):
        if binding["single"] is not None:
            value = _SINGLE_ESCAPE.sub(r"\1", binding["single"])
        elif binding["double"] is not None:
            value = _DOUBLE_ESCAPE.sub(lambda escape: _ESCAPES.get(escape[1], escape[1]), binding["double"])
        else:
            value = _COMMENT.sub("", binding["plain"]).rstrip()
        found[binding["quoted_key"] or binding["key"]] = _VARIABLE.sub(expand, value)
    return found


def load(files: Iterable[str]) -> None:
    """Set the variables of the files in the environment. Existing variables stay; missing files are skipped."""
    for file in files:
        for key, value in effective([file], os.environ).items():
            os.environ.setdefault(key, value)


def effective(files: Iterable[str], environ: Mapping[str, str]) -> dict[str, str]:
    """Return all variables that are set after `load` into `environ`."""
    values = dict(environ)
    for file in files:
        try:
            with open(file, encoding="utf-8-sig", errors="surrogateescape") as stream:
                text = stream.read()
        except OSError:
            continue
        for key, value in parse(text, values).items():
            if "\0" not in key + value:
                values.setdefault(key, value)
    return values
