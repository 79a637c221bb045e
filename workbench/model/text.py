"""Text from outside: made safe to print and free of secrets, before anyone shows or exports it."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

_CONTROL = {code: chr(0x2400 + code) for code in range(0x20) if code not in (0x09, 0x0A)}
_CONTROL[0x7F] = "\u2421"
_CONTROL.update({code: f"\\x{code:02x}" for code in range(0x80, 0xA0)})
# Marks that reorder text: they could make one thing look like another.
_CONTROL.update({code: f"\\u{code:04x}" for code in (*range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x200E, 0x200F)})
_CONTROL.update(dict.fromkeys(range(0xD800, 0xE000), "\ufffd"))
# What has no width: two ids that differ by it alone would look the same. Joiners, which scripts need, stay.
_INVISIBLE = (0xAD, 0x115F, 0x1160, 0x180E, 0x200B, *range(0x2060, 0x2066), 0x3164, 0xFEFF, 0xFFA0)
_CONTROL.update({code: f"\\u{code:04x}" for code in _INVISIBLE})
_CONTROL.update({code: f"\\U{code:08x}" for code in range(0xE0000, 0xE0080)})
# What joins, widens or tints the character before it: terminals do not agree on how wide the whole is then, and a row
# that is wider than was reckoned shifts all that stands beside it.
_CONTROL.update(dict.fromkeys((0x200D, 0x20E3, 0xFE0F, *range(0x1F3FB, 0x1F400)), ""))

_SECRETS = re.compile(
    r"""
      AIza[0-9A-Za-z_\-]{30,}                 # Google API key
    | sk-[A-Za-z0-9_\-]{16,}                  # OpenAI, Anthropic
    | gh[pousr]_[A-Za-z0-9]{30,}              # GitHub
    | AKIA[0-9A-Z]{16}                        # AWS access key id
    | ya29\.[0-9A-Za-z_\-.]{20,}              # Google OAuth token
    | xox[abprs]-[0-9A-Za-z\-]{10,}           # Slack
    | eyJ[A-Za-z0-9_\-]{10,}\.[A-Za-z0-9_\-]{10,}\.[A-Za-z0-9_\-]{5,}   # JSON web token
    | -----BEGIN[ A-Z]*PRIVATE\ KEY-----.*?-----END[ A-Z]*PRIVATE\ KEY-----
    """,
    re.VERBOSE | re.DOTALL,
)
_SECRET_NAME = (
    r"(?:api[_-]?key|(?:secret|private|access)[_-]?key|secret|password|passwd|passphrase|access[_-]?token|auth[_-]?token"
    r"|authorization)"
)
_NAMES_SECRET = re.compile(rf"(?:[a-z0-9]+[_-])*{_SECRET_NAME}", re.IGNORECASE)
# Without what may stand before the name: following that from every place of a long base64 text would take minutes.
# After a colon and without quotes there may be prose (`secret: must be set`): there a word of letters alone is a secret
# only where the line ends with it. What looks ahead is bounded, and never goes back: the text may be hostile.
_ASSIGNED_SECRETS = re.compile(
    rf"""(?<![a-z0-9])({_SECRET_NAME}
        (?:
            ["']?\s*=\s*["']? | ["']?\s*:\s*["'] | ["']?\s*:\s*(?=(?:basic|bearer)\s)
            | ["']?\s*:\s*(?=[a-z'’-]*+[^a-z\s.,;:!?"'’()-]|[^\s"',;&]{{6,200}}+[ \t]{{0,20}}+$)
        )
        (?:(?:bearer|basic|token)\s+)?
    )([^\s"',;&]{{6,}})""",
    re.IGNORECASE | re.VERBOSE | re.MULTILINE,
)
_BEARER = re.compile(r"\b(bearer\s+)(?=[a-z._~+/=\-]*[0-9])[a-z0-9._~+/=\-]{12,}", re.IGNORECASE)
_SHORTEST_SECRET = len("secret=abcdef")
_CUT = re.compile(r"\.\.\.|…|\Z")
_SHORTEST_PART = 6  # characters of a known secret in a text that was cut within it
_SHORTEST_END = 10  # the same at the start of a text, where nothing tells that something was cut off

REDACTED = "[redacted]"


class _Secret(NamedTuple):
    """A known secret, and what a text has in it at least where a part of it is left."""

    value: str
    head: str
    tail: str


_known_secrets: list[_Secret] = []  # the longest first: one may stand in another


def neutralise(text: str) -> str:
    """The text with control characters made visible, so that a terminal obeys none of it. Tabs and line feeds stay.

    Emoji that are put together of several are taken apart, so that every terminal gives them the same room.
    """
    return text.replace("\r\n", "\n").translate(_CONTROL)


def one_line(text: str, *, width: int | None = None) -> str:
    """The text neutralised and on one line, cut to `width` characters with an ellipsis where it is longer."""
    line = " ".join(neutralise(text).split())
    return line if width is None or len(line) <= width else line[: max(width - 1, 0)] + "…"


def shorten(text: str, width: int) -> str:
    """The text with an ellipsis for its middle if it has more than `width` characters: both ends often matter."""
    if len(text) <= width:
        return text
    head = width // 2
    return f"{text[:head]}…{text[len(text) - (width - head - 1) :]}"


def redact(text: str) -> str:
    """The text with known secrets, and what looks like a key or password, replaced by `[redacted]`.

    For messages and exports. Redact before a text is cut: of the rest nobody could tell what it is the beginning of.
    """
    text = mask_secrets(text)
    if len(text) < _SHORTEST_SECRET:
        return text
    return _BEARER.sub(rf"\1{REDACTED}", _ASSIGNED_SECRETS.sub(rf"\1{REDACTED}", _SECRETS.sub(REDACTED, text)))


def add_secrets(values: Iterable[str]) -> None:
    """Know these values as secrets from now on, in the whole process: they are neither shown nor stored."""
    new = {_Secret(value, value[:_SHORTEST_PART], value[-_SHORTEST_PART:]) for value in values}
    _known_secrets[:] = sorted(new.union(_known_secrets), key=lambda each: (-len(each.value), each.value))


def mask_secrets(text: str) -> str:
    """The text with known secrets replaced by `[redacted]`, also where it was cut within one.

    For what is stored: other than `redact` it takes nothing for a secret that only looks like one.
    """
    for secret in _known_secrets:
        if secret.head in text or secret.tail in text:
            text = _without_parts(text.replace(secret.value, REDACTED), secret)
    return text


def mask_data(data: Any) -> Any:
    """JSON data with `mask_secrets` applied to every text in it, keys included."""
    if isinstance(data, str):
        return mask_secrets(data)
    if isinstance(data, dict):
        return {mask_secrets(key): mask_data(value) for key, value in data.items()}
    return [mask_data(value) for value in data] if isinstance(data, list) else data


def may_hold_secret(line: bytes) -> bool:
    """Whether JSON may have a known secret in one of its texts, or a part of one: cheap to ask of a long line."""
    return any(_as_json(secret.head) in line or _as_json(secret.tail) in line for secret in _known_secrets)


@lru_cache(maxsize=1024)
def _as_json(text: str) -> bytes:
    return json.dumps(text)[1:-1].encode()


def _without_parts(text: str, secret: _Secret) -> str:
    """The text without the beginning of a secret where it was cut, and without the end of one where it begins."""
    value, head, _ = secret
    pieces, start, at = [], 0, text.find(head)
    while at >= 0:
        end = at + len(head)
        while end - at < len(value) and text[end : end + 1] == value[end - at]:
            end += 1
        if _CUT.match(text, end):
            pieces += [text[start:at], REDACTED]
            start = end
        at = text.find(head, end)
    text = "".join([*pieces, text[start:]])
    for length in range(len(value) - 1, max(_SHORTEST_END, len(value) // 2) - 1, -1):
        if text.startswith(value[-length:]):
            return REDACTED + text[length:]
    return text


def names_secret(name: str) -> bool:
    """Whether a key or variable of this name holds a secret, as in `GOOGLE_API_KEY`."""
    return _NAMES_SECRET.fullmatch(name) is not None


def mask_named(value: Any, name: object = "") -> Any:
    """Return JSON data with every text or number under the name of a secret replaced by `[redacted]`.

    `name` is the key that the value itself has, if any; the items of a list have the name of the list. For what is
    shown only: compare values before. Known secrets and what looks like one are left to `redact`.
    """
    if isinstance(value, Mapping):
        return {key: mask_named(item, key) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [mask_named(item, name) for item in value]
    if isinstance(name, str) and isinstance(value, str | int | float) and not isinstance(value, bool):
        return REDACTED if names_secret(name) else value
    return value


def counted(number: int, noun: str) -> str:
    """Such as `1 row` or `2 rows`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The end of a message about a name that nobody knows: `; did you mean 'x'?`, or nothing where none is near."""
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f"; did you mean {close[0]!r}?" if close else ""
