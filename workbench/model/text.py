"""Text from outside: made safe to print and free of secrets before it is shown or exported."""

from __future__ import annotations

import base64
import difflib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple
from urllib.parse import quote, quote_plus

_CONTROL = {code: chr(0x2400 + code) for code in range(0x20) if code not in (0x09, 0x0A)}
_CONTROL[0x7F] = "\u2421"
_CONTROL.update({code: f"\\x{code:02x}" for code in range(0x80, 0xA0)})
# Marks that reorder text: they could make two different texts look the same.
_CONTROL.update({code: f"\\u{code:04x}" for code in (*range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x200E, 0x200F)})
_CONTROL.update(dict.fromkeys(range(0xD800, 0xE000), "\ufffd"))
# Characters without width: two ids that differ only in them would look the same. Joiners stay, because scripts need
# them.
_INVISIBLE = (0xAD, 0x34F, 0x115F, 0x1160, 0x180E, 0x200B, *range(0x2060, 0x2066), 0x3164, 0xFEFF, 0xFFA0)
_CONTROL.update({code: f"\\u{code:04x}" for code in _INVISIBLE})
_CONTROL.update({code: f"\\U{code:08x}" for code in range(0xE0000, 0xE0080)})
# Characters that join, widen or tint the one before: terminals disagree on the resulting width, and a row that is wider
# than calculated shifts everything after it.
_CONTROL.update(dict.fromkeys((0x200D, 0x20E3, 0xFE0F, *range(0x1F3FB, 0x1F400)), ""))

# Joiners work between letters of other scripts and emoji, and the last one after emoji and in keycaps. Elsewhere they
# are only invisible.
_LONE_JOINER = re.compile("(?<![^\0-\x7f])[\u200c\u200d]|[\u200c\u200d](?![^\0-\x7f])|(?<![^\0-\x7f])\ufe0f(?!\u20e3)")

_SECRETS = re.compile(
    r"""
      AIza[0-9A-Za-z_\-]{30,}                 # Google API key
    | sk-[A-Za-z0-9_\-]{16,}                  # OpenAI, Anthropic
    | gh[pousr]_[A-Za-z0-9]{30,}              # GitHub
    | github_pat_[A-Za-z0-9_]{20,}
    | [rs]k_live_[A-Za-z0-9]{10,}             # Stripe
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
    r"(?:api[_-]?key|(?:secret|private|access)[_-]?key|secret|password|passwd|passphrase"
    r"|(?:access|auth|refresh|session)[_-]?token|authorization)"
)
_NAMES_SECRET = re.compile(
    rf"(?:[a-z0-9]+[_-])*(?:{_SECRET_NAME}|(?:api|bearer|bot|client|csrf|id|jwt|secret|security|xsrf)[_-]?token)",
    re.IGNORECASE,
)
_NAMES_TOKEN = re.compile(r"token|(?:[a-z0-9]+[_-])*(?:set[_-]?)?cookies?", re.IGNORECASE)
"""Names that other values have as well: a piece of text that a model reads or writes is a token, too."""

_SHORTEST_TOKEN = 12
_WORDS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")  # of a name such as dbPassword
_LOGIN = re.compile(r"""://([^\s/:@"'<>]{0,100}):[^\s/@"'<>]{1,200}@""")  # user and password before a host
# Without the text before the name: searching it from every position of a long base64 text would take minutes. After a
# colon without quotes there may be prose (`secret: must be set`): there, a word of letters only is a secret only at the
# end of the line. The lookahead is bounded and possessive, because the text may be hostile.
_ASSIGNED_SECRETS = re.compile(
    rf"""(?:(?<![a-z0-9])|(?-i:(?<=[a-z0-9])(?=[A-Z])))({_SECRET_NAME}
        (?:
            ["']?\s*=\s*["']? | ["']?\s*:\s*["'] | ["']?\s*:\s*(?=(?:basic|bearer)\s)
            | ["']?\s*:\s*(?=[a-z'’-]*+[^a-z\s.,;:!?"'’()-]|[^\s"',;&]{{6,200}}+[ \t]{{0,20}}+$)
        )
        (?:(?:bearer|basic|token)\s+)?
    )([^\s"',;&]{{6,}})""",
    re.IGNORECASE | re.VERBOSE | re.MULTILINE,
)
_BEARER = re.compile(r"\b(bearer\s+)(?=[a-z._~+/=\-]*[0-9])[a-z0-9._~+/=\-]{12,}", re.IGNORECASE)
# Texts that a match always contains: searching for them first takes a tenth of the time. They are grouped by a rare
# character of theirs, because a single character is found thirty times as fast.
_MARKS = (
    ("K", ("AKIA", "PRIVATE KEY")),
    ("J", ("eyJ",)),
    ("z", ("AIza",)),
    ("x", ("xox",)),
    ("-", ("sk-",)),
    ("_", ("github_pat_", "k_live_")),
    ("9", ("ya29.",)),
)
_GITHUB = "gh"
_MARKS_OF_GITHUB = ("ghp_", "gho_", "ghu_", "ghs_", "ghr_")
_MARKS_OF_NAMES = ("secret", "passw", "passphrase", "authorization")
_OWNED = ("key", "token")
_MARKS_OF_OWNED = tuple(
    name.format(joint)
    for name in (
        "api{}key",
        "private{}key",
        "access{}key",
        "access{}token",
        "auth{}token",
        "refresh{}token",
        "session{}token",
    )
    for joint in ("", "_", "-")
)
_MARK_OF_BEARER = "bearer"
_ENDS_IN_TOKEN = re.compile(r"token(?![a-z0-9_])")  # not `token_count` or `tokens`, which most traces have
_SHORTEST_SECRET = len("secret=abcdef")
_CUT = re.compile(r"\.\.\.|…|\Z")
_SHORTEST_PART = 6  # characters of a known secret at a cut in the text
_SHORTEST_END = 10  # the same at the start of a text, where no ellipsis marks the cut
_SHORTEST_WORD = 12  # letters only or digits only: shorter ones occur by chance
_SHORTEST_HALF = 12  # the same anywhere else, and at least half of the secret, so that it is no chance match

REDACTED = "[redacted]"


class _Secret(NamedTuple):
    """A known secret, with the head and tail that any part of it contains."""

    value: str
    head: str
    tail: str


_known_secrets: list[_Secret] = []  # longest first: one may contain another


def neutralise(text: str) -> str:
    """Make control characters visible, so that they do not affect a terminal. Tabs and line feeds stay.

    Combined emoji are split, so that every terminal gives them the same width.
    """
    if "\u200c" in text or "\u200d" in text or "\ufe0f" in text:  # searching every position takes far longer
        text = _LONE_JOINER.sub(_escape_character, text)
    return text.replace("\r\n", "\n").translate(_CONTROL)


def is_valid_utf8(text: str) -> bool:
    """Whether UTF-8 can encode a text. JSON and names of files can contain a lone surrogate, UTF-8 cannot."""
    return text == text.encode(errors="replace").decode()


def replace_surrogates(text: str) -> str:
    """Replace lone surrogates, which UTF-8 cannot encode, by U+FFFD, and join those that are a pair."""
    return text if is_valid_utf8(text) else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _escape_character(character: re.Match[str]) -> str:
    return f"\\u{ord(character[0]):04x}"


def one_line(text: str, *, width: int | None = None) -> str:
    """Neutralise a text and put it on one line, cut to `width` characters with an ellipsis."""
    is_plain = (
        text.isascii() and text.isprintable() and " " not in text
    )  # most ids: lists have them by the ten thousand
    line = text if is_plain else " ".join(neutralise(text).split())
    return line if width is None or len(line) <= width else line[: max(width - 1, 0)] + "…"


def shorten(text: str, width: int) -> str:
    """Replace the middle of a text by an ellipsis if it has more than `width` characters: both ends often matter."""
    if len(text) <= width:
        return text
    head = width // 2
    return f"{text[:head]}…{text[len(text) - (width - head - 1) :]}"


def join_some(texts: Sequence[str], most: int) -> str:
    """Join the first texts with commas, and count the others: `a, b and 3 more`."""
    more = len(texts) - most
    return ", ".join(texts[:most]) + (f" and {more:,} more" if more > 0 else "")


def redacted_line(text: str, *, width: int | None = None) -> str:
    """Do as `one_line`, without secrets."""
    return one_line(redact(text), width=width)


def measure_common_prefix(left: Sequence[Any], right: Sequence[Any]) -> int:
    """Return the length of the common prefix; comparing slices is fast for long texts."""
    low, high = 0, min(len(left), len(right))
    while low < high:
        middle = (low + high + 1) // 2
        if left[low:middle] == right[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def redact(text: str) -> str:
    """Replace known secrets, and text that looks like a key or password, by `[redacted]`.

    For messages and exports. Redact a text before cutting it: the start of a secret alone is not recognised.
    """
    text = mask_secrets(text)
    if len(text) < _SHORTEST_SECRET:
        return text
    if _has_mark(text):
        text = _SECRETS.sub(REDACTED, text)
    if _may_have_login(text):
        text = _LOGIN.sub(rf"://\1:{REDACTED}@", text)
    folded = text.casefold()
    if _has_mark_of_name(folded):
        text = _ASSIGNED_SECRETS.sub(rf"\1{REDACTED}", text)
    return _BEARER.sub(rf"\1{REDACTED}", text) if _MARK_OF_BEARER in folded else text


def may_be_redacted(text: str) -> bool:
    """True if `redact` or `mask_named_secrets` may change JSON data with this text. False is certain."""
    if _has_mark(text) or (_may_have_login(text) and _LOGIN.search(text) is not None):
        return True
    folded = text.casefold()
    return (
        _has_mark_of_name(folded)
        or "cookie" in folded
        or ("token" in folded and _ENDS_IN_TOKEN.search(folded) is not None)
        or _MARK_OF_BEARER in folded
        or (bool(_known_secrets) and may_hold_secret(text.encode("utf-8", "replace")))
    )


def _has_mark(text: str) -> bool:
    """True if a text may contain a key or password that is recognised by its form."""
    for character, marks in _MARKS:
        if character in text and any(map(text.__contains__, marks)):
            return True
    return _GITHUB in text and any(map(text.__contains__, _MARKS_OF_GITHUB))


def _may_have_login(text: str) -> bool:
    return "@" in text and "://" in text


def _has_mark_of_name(folded: str) -> bool:
    """True if a text without capital letters may contain the name of a secret."""
    return any(map(folded.__contains__, _MARKS_OF_NAMES)) or (
        any(map(folded.__contains__, _OWNED)) and any(map(folded.__contains__, _MARKS_OF_OWNED))
    )


def add_secrets(values: Iterable[str]) -> None:
    """Register secrets for the whole process: they are neither shown nor stored.

    This includes their usual encodings: in URLs, Python source, JSON and base64.
    """
    encoded = {each for value in values for each in _list_encodings(value)}
    new_secrets = {_Secret(value, value[:_SHORTEST_PART], value[-_SHORTEST_PART:]) for value in encoded}
    _known_secrets[:] = sorted(new_secrets.union(_known_secrets), key=lambda each: (-len(each.value), each.value))


def has_known_secrets() -> bool:
    """True if any secret is registered."""
    return bool(_known_secrets)


def _list_encodings(value: str) -> Iterator[str]:
    """Yield the value and its encodings."""
    data = value.encode("utf-8", "surrogatepass")
    yield value
    yield from (quote(data), quote(data, safe=""), quote_plus(data))
    yield from (repr(value)[1:-1], json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1])
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        # Without padding, which other texts end with as well.
        yield encode(data).decode().rstrip("=")
        # After one or two bytes, as in "user:password", without the characters that also encode other bytes.
        for offset in (1, 2):
            end = (offset + len(data)) // 3 * 4
            inner = encode(bytes(offset) + data).decode()[offset + 1 : end]
            if len(inner) >= _SHORTEST_PART:
                yield inner


def mask_secrets(text: str) -> str:
    """Replace known secrets by `[redacted]`, including parts of a secret that was cut.

    A part counts at the start or end of the text and before an ellipsis, unless it is a short word. Half of the secret
    counts anywhere.

    For stored text: unlike `redact` it ignores text that only looks like a secret.
    """
    present = [secret for secret in _known_secrets if secret.head in text or secret.tail in text]
    for secret in present:
        text = text.replace(secret.value, REDACTED)
    # All parts are found before one is replaced: parts of a secret and of its encodings may overlap.
    pieces, end = [], 0
    for start, stop in sorted(part for secret in present for part in _find_parts(text, secret)):
        if start >= end:
            pieces += [text[end:start], REDACTED]
        end = max(end, stop)
    return "".join([*pieces, text[end:]])


def mask_data(data: Any) -> Any:
    """Apply `mask_secrets` to every text in JSON data, including keys."""
    if not _known_secrets:
        return data
    if isinstance(data, str):
        return mask_secrets(data)
    if isinstance(data, dict):
        return {mask_secrets(key): mask_data(value) for key, value in data.items()}
    return [mask_data(value) for value in data] if isinstance(data, list) else data


def may_be_masked(text: str) -> bool:
    """True if `mask_secrets` may change a part of a text. This is cheap for a long text."""
    return any(secret.head in text or secret.tail in text for secret in _known_secrets)


def may_hold_secret(line: bytes) -> bool:
    """True if JSON may contain a known secret or a part of one. This is cheap for a long line."""
    return any(_as_json(secret.head) in line or _as_json(secret.tail) in line for secret in _known_secrets)


@lru_cache(maxsize=1024)
def _as_json(text: str) -> bytes:
    return json.dumps(text)[1:-1].encode()


def _find_parts(text: str, secret: _Secret) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each part of a secret that was cut."""
    value, head, tail = secret
    long_enough = max(_SHORTEST_HALF, (len(value) + 1) // 2)
    position = text.find(head)
    while position >= 0:
        end = position + len(head)
        while end - position < len(value) and text[end : end + 1] == value[end - position]:
            end += 1
        if end - position >= long_enough or (_CUT.match(text, end) and not is_short_word(text[position:end])):
            yield position, end
        position = text.find(head, end)
    position = text.rfind(tail)
    while position >= 0:
        start, end = position, position + len(tail)
        while start > 0 and end - start < len(value) and text[start - 1] == value[start - end - 1]:
            start -= 1
        if end - start >= (long_enough if start else max(_SHORTEST_END, len(value) // 2)):
            yield start, end
        position = text.rfind(tail, 0, start)


def is_short_word(text: str) -> bool:
    """True for a few letters or digits: other texts contain them by chance, so they cannot be masked."""
    return len(text) < _SHORTEST_WORD and (text.isalpha() or text.isdecimal())


@lru_cache(maxsize=4096)  # data repeats the same few keys
def is_secret_key(name: str) -> bool:
    """True if a key or variable of this name holds a secret, such as `GOOGLE_API_KEY` or `dbPassword`."""
    return _NAMES_SECRET.fullmatch(name) is not None or _NAMES_SECRET.fullmatch(_WORDS.sub("_", name)) is not None


@lru_cache(maxsize=4096)
def may_name_secret(name: str) -> bool:
    """True if `mask_named_secrets` may replace a value under this name."""
    return is_secret_key(name) or _NAMES_TOKEN.fullmatch(name) is not None


def _is_secret(name: str, value: str | float) -> bool:
    """True if a value under this name is a secret. A `token` or `cookie` is one only if it is long."""
    if is_secret_key(name):
        return True
    return may_name_secret(name) and isinstance(value, str) and len(value) >= _SHORTEST_TOKEN


def mask_named_secrets(value: Any, name: object = "") -> Any:
    """Replace every text or number under the name of a secret by `[redacted]` in JSON data.

    `name` is the key of the value itself, if any; items of a list have the name of the list. For display only: compare
    values before. Use `redact` for known secrets and text that looks like one.
    """
    if isinstance(value, Mapping):
        return {key: mask_named_secrets(item, key) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [mask_named_secrets(item, name) for item in value]
    if isinstance(name, str) and isinstance(value, str | int | float) and not isinstance(value, bool):
        return REDACTED if _is_secret(name, value) else value
    return value


def redact_data(data: Any, name: object = "") -> Any:
    """Redact every text in JSON data, and apply `mask_named_secrets`."""
    if isinstance(data, str):
        return mask_named_secrets(redact(data), name)
    if isinstance(data, Mapping):
        return {redact(key) if isinstance(key, str) else key: redact_data(item, key) for key, item in data.items()}
    return (
        [redact_data(item, name) for item in data] if isinstance(data, list | tuple) else mask_named_secrets(data, name)
    )


def compare_with_threshold(score: float, threshold: float, *, metric: str = "") -> str:
    """Format a score beside its threshold: "0.50 < 0.80", "1.00 ≥ 0.80", for a metric of times "1.2 s ≥ 1 s".

    Lower scores can be better, so only the status says whether this is good.
    """
    sign = "<" if score < threshold else "≥"
    limit = format_limit(metric, threshold) if metric in _TIMES else score_text(threshold, score)
    return f"{format_measured(metric, score, threshold)} {sign} {limit}"


_LARGE = 100.0


def score_text(score: float, other: float | None = None) -> str:
    """Format a score with two digits, or with up to six if it would look equal to a different `other`.

    Large values, such as times and counts, have no digits after the point. If six are not enough, a score below has
    all of its digits; one above, such as 0.8000000000000002, has reached the other.
    """
    least = 0 if max(abs(score), abs(other or 0.0)) >= _LARGE else 2
    for digits in range(least, 7):
        text = f"{score:.{digits}f}"
        if other is None or score == other or text != f"{other:.{digits}f}":
            return text
    return repr(score) if other is not None and score < other else f"{score:.{least}f}"


def format_duration(seconds: float) -> str:
    """Format a time: "8.1 µs", "0.4 ms", "12 ms", "1.25 s", "12 s", "2 min 05 s", "1 h 02 min"."""
    if 0 < seconds < 0.00005:  # an agent that is a plain function: 0.0 in milliseconds
        return f"{seconds * 1e6:.1f} µs"
    if seconds < 0.00995:
        return f"{seconds * 1e3:.1f} ms"
    if seconds < 0.9995:
        return f"{seconds * 1e3:.0f} ms"
    if seconds < 99.5:
        return f"{seconds:.2f} s" if seconds < 9.995 else f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d} min"


_TIMES = ("latency", "invocation_duration_v1")
"""The metrics that are times, in seconds."""


def format_measured(metric: str, number: float, other: float | None = None) -> str:
    """Format a score, or a mean of scores, as `score_text` does; that of a metric of times as a duration."""
    return format_duration(number) if metric in _TIMES else score_text(number, other)


def format_mean(metric: str, number: float, *, digits: int = 4, sign: str = "") -> str:
    """Format a mean, or with the sign "+" a difference of means; that of a metric of times as a duration."""
    if metric in _TIMES:
        return f"{sign}{format_time(number)}" if number >= 0 else format_time(number)
    return f"{number:{sign}.{digits}g}"


def format_time(seconds: float) -> str:
    """Format a time, a threshold or a difference of times, in seconds: exactly if it has few digits."""
    if seconds < 0:
        return f"-{format_time(-seconds)}"
    is_short = not seconds or (1 <= seconds < 60 and round(seconds, 1) == seconds)
    return f"{seconds:g} s" if is_short else format_duration(seconds)


def format_threshold(threshold: float) -> str:
    """Format a threshold as it is, with at least two digits."""
    for digits in range(2, 7):
        text = f"{threshold:.{digits}f}"
        if float(text) == threshold:
            return text
    return repr(threshold)


def format_limit(metric: str, threshold: float) -> str:
    """Format the threshold of a metric; that of a metric of times as a duration."""
    return format_time(threshold) if metric in _TIMES else format_threshold(threshold)


def format_score_change(before: float, after: float, *, metric: str = "") -> str:
    """Format two scores and their difference: "0.50 → 1.00 (+0.50)", without the difference if there is none."""
    change = after - before
    difference = f" ({'-' if change < 0 else '+'}{format_measured(metric, abs(change), 0.0)})" if change else ""
    return f"{format_measured(metric, before, after)} → {format_measured(metric, after, before)}{difference}"


def pluralise(number: int, noun: str) -> str:
    """Format a number with its noun, such as `1 row` or `2,000 rows`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def suggest_name(name: str, known_names: Iterable[str]) -> str:
    """Return `; did you mean 'x'?` for an unknown name, or an empty text if no known name is similar."""
    close = difflib.get_close_matches(name, list(known_names), n=1, cutoff=0.5)
    return f"; did you mean {close[0]!r}?" if close else ""
