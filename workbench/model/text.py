"""Text from outside: made safe to print and free of secrets, before anyone shows or exports it."""

from __future__ import annotations

import base64
import difflib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, NamedTuple
from urllib.parse import quote, quote_plus

_CONTROL = {code: chr(0x2400 + code) for code in range(0x20) if code not in (0x09, 0x0A)}
_CONTROL[0x7F] = "\u2421"
_CONTROL.update({code: f"\\x{code:02x}" for code in range(0x80, 0xA0)})
# Marks that reorder text: they could make one thing look like another.
_CONTROL.update({code: f"\\u{code:04x}" for code in (*range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x200E, 0x200F)})
_CONTROL.update(dict.fromkeys(range(0xD800, 0xE000), "\ufffd"))
# What has no width: two ids that differ by it alone would look the same. Joiners, which scripts need, stay.
_INVISIBLE = (0xAD, 0x34F, 0x115F, 0x1160, 0x180E, 0x200B, *range(0x2060, 0x2066), 0x3164, 0xFEFF, 0xFFA0)
_CONTROL.update({code: f"\\u{code:04x}" for code in _INVISIBLE})
_CONTROL.update({code: f"\\U{code:08x}" for code in range(0xE0000, 0xE0080)})
# What joins, widens or tints the character before it: terminals do not agree on how wide the whole is then, and a row
# that is wider than was reckoned shifts all that stands beside it.
_CONTROL.update(dict.fromkeys((0x200D, 0x20E3, 0xFE0F, *range(0x1F3FB, 0x1F400)), ""))

# Joiners work between letters of other scripts, and emoji, and the last one after emoji and in keycaps: beside anything
# else they are only invisible.
_LONE_JOINER = re.compile("(?<![^\0-\x7f])[\u200c\u200d]|[\u200c\u200d](?![^\0-\x7f])|(?<![^\0-\x7f])\ufe0f(?!\u20e3)")

_SECRETS = re.compile(
    r"""
      AIza[0-9A-Za-z_\-]{30,}                 # Google API key
    | sk-[A-Za-z0-9_\-]{16,}                  # OpenAI, Anthropic
    | gh[pousr]_[A-Za-z0-9]{30,}              # GitHub
    | AKIA[0-9A-Z]{16}                        # AWS access key id
    | ya29\.[0-9A-Za-z_\-.]{20,}              # Google OAuth token
    | xox[abprs]-[0-9A-Za-z\-]{10,}           # Slack
    | eyJ[A-Za-z0-9_\-]{10,}\.[A-Za-z0-9_\-]{10,}\.[A-Za-z0-9_\-]{5,}   # JSON web token
    | (?<![A-Za-z0-9_\-.])(?:AIza|sk-|gh[pousr]_|AKIA|ya29\.|xox[abprs]-|eyJ)[A-Za-z0-9_\-.]{6,}?(?=\.\.\.|…)  # cut
    | -----BEGIN[ A-Z]*PRIVATE\ KEY-----.*?(?:-----END[ A-Z]*PRIVATE\ KEY-----|\Z)
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
# What a text has at least where one of the three finds something: to look for that takes a tenth of the time.
_MARKS = (
    *("AIza", "sk-", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "AKIA", "ya29.", "eyJ", "PRIVATE KEY"),
    *("xoxa-", "xoxb-", "xoxp-", "xoxr-", "xoxs-"),
)
_OWNED = ("api{}key", "private{}key", "access{}key", "access{}token", "auth{}token")
_MARKS_OF_NAMES = (
    *("secret", "passw", "passphrase", "authorization"),
    *(name.format(joint) for name in _OWNED for joint in ("", "_", "-")),
)
_MARK_OF_BEARER = "bearer"
_SHORTEST_SECRET = len("secret=abcdef")
_CUT = re.compile(r"\.\.\.|…|\Z")
_SHORTEST_PART = 6  # characters of a known secret in a text that was cut within it
_SHORTEST_END = 10  # the same at the start of a text, where nothing shows that something was cut off
_SHORTEST_WORD = 12  # letters alone or digits alone: texts have shorter ones by chance
_SHORTEST_HALF = 12  # the same anywhere else; at least half of the secret, so that it is not there by chance

REDACTED = "[redacted]"


class _Secret(NamedTuple):
    """A known secret, and what a text has in it at least where a part of it is left."""

    value: str
    head: str
    tail: str


_known_secrets: list[_Secret] = []  # the longest first: one may contain another


def neutralise(text: str) -> str:
    """The text with control characters made visible, so that a terminal obeys none of it. Tabs and line feeds stay.

    Emoji that are put together of several are taken apart, so that every terminal gives them the same room.
    """
    if "\u200c" in text or "\u200d" in text or "\ufe0f" in text:  # to look for it at every place takes far longer
        text = _LONE_JOINER.sub(_escape_character, text)
    return text.replace("\r\n", "\n").translate(_CONTROL)


def _escape_character(character: re.Match[str]) -> str:
    return f"\\u{ord(character[0]):04x}"


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

    For messages and exports. Redact before a text is cut: the beginning of a secret alone is not recognised.
    """
    text = mask_secrets(text)
    if len(text) < _SHORTEST_SECRET:
        return text
    if any(map(text.__contains__, _MARKS)):
        text = _SECRETS.sub(REDACTED, text)
    folded = text.casefold()
    if any(map(folded.__contains__, _MARKS_OF_NAMES)):
        text = _ASSIGNED_SECRETS.sub(rf"\1{REDACTED}", text)
    return _BEARER.sub(rf"\1{REDACTED}", text) if _MARK_OF_BEARER in folded else text


def may_be_redacted(text: str) -> bool:
    """Whether `redact` or `mask_named_secrets` may find something in JSON data that has this text. False is certain."""
    if any(map(text.__contains__, _MARKS)):
        return True
    folded = text.casefold()
    return (
        any(map(folded.__contains__, _MARKS_OF_NAMES))
        or _MARK_OF_BEARER in folded
        or (bool(_known_secrets) and may_hold_secret(text.encode("utf-8", "replace")))
    )


def add_secrets(values: Iterable[str]) -> None:
    """Know these values as secrets from now on, in the whole process: they are neither shown nor stored.

    The same holds for their usual encodings: as in addresses, Python source, JSON and base64.
    """
    encoded = {each for value in values for each in _list_encodings(value)}
    new = {_Secret(value, value[:_SHORTEST_PART], value[-_SHORTEST_PART:]) for value in encoded}
    _known_secrets[:] = sorted(new.union(_known_secrets), key=lambda each: (-len(each.value), each.value))


def has_known_secrets() -> bool:
    """True if any value is to be masked."""
    return bool(_known_secrets)


def _list_encodings(value: str) -> Iterator[str]:
    """The value, and how it looks where it was encoded."""
    data = value.encode("utf-8", "surrogatepass")
    yield value
    yield from (quote(data), quote(data, safe=""), quote_plus(data))
    yield from (repr(value)[1:-1], json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1])
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        # Without its padding, which other texts end with as well.
        yield encode(data).decode().rstrip("=")
        # After one byte or two, such as in "user:password", without the signs that other bytes have a part in.
        for before in (1, 2):
            whole = (before + len(data)) // 3 * 4
            inner = encode(bytes(before) + data).decode()[before + 1 : whole]
            if len(inner) >= _SHORTEST_PART:
                yield inner


def mask_secrets(text: str) -> str:
    """The text with known secrets replaced by `[redacted]`, also where one was cut.

    A part counts at the start or end of the text and before an ellipsis, unless it is a short word, and anywhere if it
    is half of the secret.

    For what is stored: other than `redact` it takes nothing for a secret that only looks like one.
    """
    present = [secret for secret in _known_secrets if secret.head in text or secret.tail in text]
    for secret in present:
        text = text.replace(secret.value, REDACTED)
    # All parts are found before one is replaced: those of a secret and of its encodings may overlap.
    pieces, end = [], 0
    for start, stop in sorted(part for secret in present for part in _find_parts(text, secret)):
        if start >= end:
            pieces += [text[end:start], REDACTED]
        end = max(end, stop)
    return "".join([*pieces, text[end:]])


def mask_data(data: Any) -> Any:
    """JSON data with `mask_secrets` applied to every text in it, keys included."""
    if not _known_secrets:
        return data
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


def _find_parts(text: str, secret: _Secret) -> Iterator[tuple[int, int]]:
    """Find where a text has the beginning or the end of a secret that was cut; yield start and end of each."""
    value, head, tail = secret
    long_enough = max(_SHORTEST_HALF, (len(value) + 1) // 2)
    at = text.find(head)
    while at >= 0:
        end = at + len(head)
        while end - at < len(value) and text[end : end + 1] == value[end - at]:
            end += 1
        if end - at >= long_enough or (_CUT.match(text, end) and not is_short_word(text[at:end])):
            yield at, end
        at = text.find(head, end)
    at = text.rfind(tail)
    while at >= 0:
        start, end = at, at + len(tail)
        while start > 0 and end - start < len(value) and text[start - 1] == value[start - end - 1]:
            start -= 1
        if end - start >= (long_enough if start else max(_SHORTEST_END, len(value) // 2)):
            yield start, end
        at = text.rfind(tail, 0, start)


def is_short_word(text: str) -> bool:
    """True for a few letters alone or digits alone: other texts have them by chance, so they cannot be masked."""
    return len(text) < _SHORTEST_WORD and (text.isalpha() or text.isdecimal())


def is_secret_key(name: str) -> bool:
    """Whether a key or variable of this name holds a secret, as in `GOOGLE_API_KEY`."""
    return _NAMES_SECRET.fullmatch(name) is not None


def mask_named_secrets(value: Any, name: object = "") -> Any:
    """Return JSON data with every text or number under the name of a secret replaced by `[redacted]`.

    `name` is the key that the value itself has, if any; the items of a list have the name of the list. For what is
    shown only: compare values before. Known secrets and what looks like one are left to `redact`.
    """
    if isinstance(value, Mapping):
        return {key: mask_named_secrets(item, key) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [mask_named_secrets(item, name) for item in value]
    if isinstance(name, str) and isinstance(value, str | int | float) and not isinstance(value, bool):
        return REDACTED if is_secret_key(name) else value
    return value


def redact_data(data: Any, name: object = "") -> Any:
    """Return JSON data with every text in it redacted, and with `mask_named_secrets` applied."""
    if isinstance(data, str):
        return mask_named_secrets(redact(data), name)
    if isinstance(data, Mapping):
        return {redact(key) if isinstance(key, str) else key: redact_data(item, key) for key, item in data.items()}
    return (
        [redact_data(item, name) for item in data] if isinstance(data, list | tuple) else mask_named_secrets(data, name)
    )


def pluralise(number: int, noun: str) -> str:
    """A number and its noun, such as `1 row` or `2,000 rows`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def suggest_name(name: str, known: Iterable[str]) -> str:
    """The end of a message about a name that nobody knows: `; did you mean 'x'?`, or nothing where none is near."""
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f"; did you mean {close[0]!r}?" if close else ""
