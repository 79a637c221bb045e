"""Which defaults of parameters may be told: declarations of tools stand in prompts and recorded files, keys must not.

Defaults are values, not source: `os.environ["KEY"]` is the key itself. What may be one is left out, rather once too
often; that a parameter has a default is still told, by its not being required.
"""

from __future__ import annotations

import re

from .values import lenient

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_NAMES_SECRET = re.compile(
    r"api[_-]?key|(secret|private|access|auth|account|encryption|signing)[_-]?key|secret|passw|passphrase|pwd"
    r"|credential|authorization|cookie|token$|bearer|(^|[_-])(key|auth|pin)$",
    re.IGNORECASE,
)
# What is measured by the token; `max_tokens` and its like are no names of secrets anyway.
_NAMES_MEASURE = re.compile(r"(to[_-]?first|(^|[_.-])per([_-](in|out)put)?)[_-]?token$", re.IGNORECASE)
_NAMES_SECRET_NUMBER = re.compile(r"secret|passw|passphrase|pwd|(^|[_-])pin$", re.IGNORECASE)
_FEW = 4  # characters of a text that is no secret, whatever it looks like
_MOST = 200
# Keys mix letters and digits, or have no end of either; other signs are not among them for addresses with a password.
_WORDS = re.compile(r"[^\W\d_]{0,15}\d{0,4}(?:[ _\-.,:/][^\W\d_]{0,15}\d{0,4})*")
_KEY = re.compile(r"sk-|gh[pousr]_|xox[abprs]-|ya29\.|AKIA|AIza|eyJ")
_FEWEST = 5  # characters of the beginning of a value that was cut
_CUT = re.compile(r"\.\.\.|…|\Z")
_QUOTED = re.compile(r"""'[^'\s]*'|"[^"\s]*\"""")


def names_secret(name: str) -> bool:
    """Whether a parameter, variable or header of this name may hold a secret."""
    return _NAMES_SECRET.search(name) is not None


def may_be_secret(name: str, value: Any) -> bool:
    """Whether a value under this name may be, or hold, a secret: yes, no and nothing never are, a number is no key."""
    if value is None or isinstance(value, bool) or not names_secret(name) or _NAMES_MEASURE.search(name):
        return False
    return not isinstance(value, (int, float)) or _NAMES_SECRET_NUMBER.search(name) is not None


def may_be_told(name: str, default: Any) -> bool:
    """Whether the default of a parameter, or of a key in one, is surely no secret."""
    if names_secret(name):
        return default is None
    # Objects as their text: it shows what they hold.
    default = lenient(default)
    if isinstance(default, str):
        return is_plain(default)
    if isinstance(default, dict):
        return all(is_plain(key) and may_be_told(key, item) for key, item in default.items())
    if isinstance(default, list):
        return all(may_be_told(name, item) for item in default)
    return True


def schema_to_tell(schema: Any, *, name: str = "") -> Any:
    """A JSON schema, or what holds some, without the defaults that must not be told."""
    if isinstance(schema, list):
        return [schema_to_tell(item, name=name) for item in schema]
    if not isinstance(schema, dict):
        return schema
    told = {}
    for key, value in schema.items():
        if key == "properties" and isinstance(value, dict):
            told[key] = {inner: schema_to_tell(item, name=inner) for inner, item in value.items()}
        elif key != "default":
            told[key] = schema_to_tell(value, name=name)
        elif may_be_told(name, value):
            told[key] = value
    return told


def annotation_to_tell(text: str) -> str:
    """An annotation as text; what is quoted in it may be the default of a field."""
    return _QUOTED.sub(lambda found: found[0] if is_plain(found[0][1:-1]) else "'...'", text)


def docstring_to_tell(owner: Any, text: str) -> str:
    """A docstring; empty where it is the signature that dataclasses get for want of one, with its defaults."""
    kind = owner if isinstance(owner, type) else type(owner)
    is_signature = hasattr(kind, "__dataclass_fields__") and text.startswith(f"{kind.__name__}(")
    return "" if is_signature else text


def without_beginning(text: str, value: str, replacement: str) -> str:
    """The text with a replacement for the beginning of a value wherever the text was cut within it."""
    head = value[:_FEWEST]
    pieces, start, at = [], 0, text.find(head)
    while at >= 0:
        end = at + len(head)
        while end - at < len(value) and text[end : end + 1] == value[end - at]:
            end += 1
        if end - at < len(value) and _CUT.match(text, end):
            pieces += [text[start:at], replacement]
            start = end
        at = text.find(head, end)
    return "".join([*pieces, text[start:]])


def is_plain(text: str) -> bool:
    """Whether a text reads like words, names or numbers."""
    if len(text) <= _FEW:
        return True
    return len(text) <= _MOST and _KEY.match(text) is None and _WORDS.fullmatch(text) is not None
