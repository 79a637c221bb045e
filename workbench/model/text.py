"""Text from outside: made safe to print and free of secrets, before anyone shows or exports it."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

_CONTROL = {code: chr(0x2400 + code) for code in range(0x20) if code not in (0x09, 0x0A)}
_CONTROL[0x7F] = "\u2421"
_CONTROL.update({code: f"\\x{code:02x}" for code in range(0x80, 0xA0)})
# Marks that reorder text: they could make one thing look like another.
_CONTROL.update({code: f"\\u{code:04x}" for code in (*range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x200E, 0x200F)})
_CONTROL.update(dict.fromkeys(range(0xD800, 0xE000), "\ufffd"))
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
_SECRET_NAME = r"(?:api[_-]?key|secret|password|passwd|access[_-]?token|auth[_-]?token)"
_NAMES_SECRET = re.compile(rf"(?:[a-z0-9]+[_-])*{_SECRET_NAME}", re.IGNORECASE)
# Without what may stand before the name: following that from every place of a long base64 text would take minutes.
_ASSIGNED_SECRETS = re.compile(
    rf"""(?<![a-z0-9])({_SECRET_NAME}["']?\s*[=:]\s*["']?)([^\s"',;&]{{6,}})""", re.IGNORECASE
)
_SHORTEST_SECRET = len("secret=abcdef")

REDACTED = "[redacted]"


def neutralise(text: str) -> str:
    """The text with control characters made visible, so that a terminal obeys none of it. Tabs and line feeds stay.

    Emoji that are put together of several are taken apart, so that every terminal gives them the same room.
    """
    return text.replace("\r\n", "\n").translate(_CONTROL)


def one_line(text: str, *, width: int | None = None) -> str:
    """The text neutralised and on one line, cut to `width` characters with an ellipsis where it is longer."""
    line = " ".join(neutralise(text).split())
    return line if width is None or len(line) <= width else line[: max(width - 1, 0)] + "…"


def redact(text: str) -> str:
    """The text with what looks like a key or password replaced by `[redacted]`. For messages and exports."""
    if len(text) < _SHORTEST_SECRET:
        return text
    return _ASSIGNED_SECRETS.sub(rf"\1{REDACTED}", _SECRETS.sub(REDACTED, text))


def names_secret(name: str) -> bool:
    """Whether a key or variable of this name holds a secret, as in `GOOGLE_API_KEY`."""
    return _NAMES_SECRET.fullmatch(name) is not None


def counted(number: int, noun: str) -> str:
    """Such as `1 row` or `2 rows`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The end of a message about a name that nobody knows: `; did you mean 'x'?`, or nothing where none is near."""
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f"; did you mean {close[0]!r}?" if close else ""
