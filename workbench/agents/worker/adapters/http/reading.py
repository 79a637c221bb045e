"""What is understood of the answers of an HTTP agent, by the paths in its settings or by what most agents answer."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ...responses import refuse_misspelt_keys
from .. import base
from ..foreign import SPANS, in_json, read_told

if TYPE_CHECKING:
    from .paths import Path

MAPPED = ("response", "predicted_trajectory", "usage", "state", "spans")
"""What settings may say the path of."""

_USUAL = ("response", "predicted_trajectory", "usage", "state", "tool_responses", "intermediate_responses", SPANS)
_EXPECTED = (
    'expected JSON with "response" (and "predicted_trajectory"), a chat completion, or a table [targets.{name}.http] '
    'that says where the response is: response = "$.path.to.text"'
)
_UNTOLD = (
    "the answer does not say which tools were called: it has no predicted_trajectory, and [targets.{name}.http] names "
    "no other place of it"
)
_LEFT_OUT = '; a key that is left out where no tool was called is found by a path such as "$..tool_calls[*]"'
_BEGINNING = 200
_AGAIN = (408, 425, 429)  # and 5xx: another time it may answer


class Reading:
    """The mapping of `[targets.NAME.http]`. Raises LoadError where a path is none."""

    def __init__(self, target: dict[str, Any]) -> None:
        self._expected = _EXPECTED.format(name=target["name"])
        self._untold = _UNTOLD.format(name=target["name"])
        told = {key: text for key, text in target["options"].items() if key in MAPPED}
        self._paths: dict[str, Path] = {}
        if told:
            from .paths import Path

            place = f"targets.{target['name']}.http"
            self._paths = {key: Path(text, key=f"{place}.{key}") for key, text in told.items()}

    def read(self, text: str, *, content_type: str) -> dict[str, Any]:
        """An answer as `ForeignSession.ask` gives it. Raises AgentFault with what was found and what expected."""
        value = self._parsed(text.removeprefix("\ufeff"), content_type=content_type.partition(";")[0].strip().lower())
        if isinstance(value, str) and not self._paths:
            return {**read_told({"response": value}, how="answered"), "calls_untold": self._untold}
        known = self._usual(value)
        known.update({key: self._found(value, key, path) for key, path in self._paths.items() if key != "spans"})
        if "spans" in self._paths:  # which cost nothing where they are not there
            spans = self._paths["spans"].values(value)
            known[SPANS] = spans[0] if len(spans) == 1 else spans or None
        _refuse_error(value, known)
        if "response" not in known and "predicted_trajectory" not in known:
            raise base.AgentFault(f"answered with {in_json(value)}, {self._expected}")
        if known.get("predicted_trajectory") is not None and not isinstance(known["predicted_trajectory"], (list, str)):
            found = in_json(known["predicted_trajectory"])
            raise base.AgentFault(f"answered with {found} as predicted_trajectory, expected a list of calls")
        answer = read_told({key: item for key, item in known.items() if item is not None}, how="answered")
        return answer if self._has_place_of_calls(value) else {**answer, "calls_untold": self._untold}

    def _has_place_of_calls(self, value: Any) -> bool:
        """Whether an answer that called tools would say so: nothing there means that none was called."""
        return "predicted_trajectory" in self._paths or (isinstance(value, dict) and _completion(value) is not None)

    def _parsed(self, text: str, *, content_type: str) -> Any:
        if not text.strip():
            raise base.AgentFault(f"answered with nothing, {self._expected}")
        is_plain = content_type == "text/plain" and not self._paths
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            if is_plain:
                return text
        else:
            return value if isinstance(value, (dict, str)) or not is_plain else text  # a number, said as text
        kind = "no JSON"
        if content_type == "text/html" or text.lstrip()[:9].lower().startswith(("<!doctype", "<html")):
            kind = "HTML (a page for people, perhaps of an error or a login)"
        elif content_type == "text/event-stream":
            kind = "a stream of events; most agents can be asked for one answer instead"
        raise base.AgentFault(f"answered with {kind}: {beginning(text)!r}; {self._expected}")

    def _usual(self, value: Any) -> dict[str, Any]:
        """What is found without being told where."""
        if not isinstance(value, dict):
            return {}
        usual = {key: value[key] for key in _USUAL if key in value}
        completion = _completion(value)
        if completion is not None:
            return {**completion, **{key: item for key, item in usual.items() if item is not None}}
        try:
            refuse_misspelt_keys({**value, **dict.fromkeys(self._paths)})
        except base.AgentFault as error:
            raise base.AgentFault(f"answered with what cannot be taken: {error}") from None
        return usual

    def _found(self, value: Any, key: str, path: Path) -> Any:
        """What a path leads to; of several texts of a response the whole."""
        found = path.values(value)
        if path.is_single:
            if not found:
                # Not taken for no calls: then a path with a slip in it would say of every answer that it has none.
                hint = _LEFT_OUT if key == "predicted_trajectory" else ""
                raise base.AgentFault(f"answered with {in_json(value)}, where nothing is at {path.text} ({key}){hint}")
            return found[0]
        if not path.has_place(value):
            raise base.AgentFault(f"answered with {in_json(value)}, where {path.text} finds no place to look ({key})")
        if key == "predicted_trajectory":
            return found
        texts = [item for item in found if isinstance(item, str)]
        if key == "response" and texts and len(texts) == len(found):
            return "".join(texts)
        if len(found) != 1:
            raise base.AgentFault(
                f"answered with {in_json(value)}, where {len(found)} values are at {path.text} ({key})"
            )
        return found[0]


def beginning(text: str) -> str:
    """The first words of a text, on one line."""
    words = " ".join(text[: 4 * _BEGINNING].split())
    return words if len(words) <= _BEGINNING else words[: _BEGINNING - 3] + "..."


def _refuse_error(value: Any, known: dict[str, Any]) -> None:
    """Raise AgentFault where a service says in its answer that it failed, and no response."""
    error = value.get("error") if isinstance(value, dict) else None
    if not error or known.get("response") or known.get("predicted_trajectory"):
        return
    code, told = (error.get("code"), error.get("message")) if isinstance(error, dict) else (None, error)
    text = beginning(told if isinstance(told, str) else json.dumps(error))
    raise base.AgentFault(f"answered with an error: {text}", kind=kind_of(code))


def kind_of(status: Any) -> str:
    """The kind of failure that an HTTP status of an error stands for: whether another try may help."""
    passing = isinstance(status, int) and (status in _AGAIN or 500 <= status <= 599)
    return "infrastructure" if passing else "agent"


def _completion(value: dict[str, Any]) -> dict[str, Any] | None:
    """What a chat completion of OpenAI's form says; None where the value is none."""
    choices = value.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    message = first.get("message") if isinstance(first, dict) else None
    if not isinstance(message, dict):
        return None
    content = message.get("content")
    if isinstance(content, list):
        texts = [part.get("text") for part in content if isinstance(part, dict)]
        content = "".join(text for text in texts if isinstance(text, str))
    calls = message.get("tool_calls") or None
    if calls is None and isinstance(message.get("function_call"), dict):  # as it was called before tools
        calls = [{"function": message["function_call"]}]
    usage = value.get("usage")
    return {"response": content, "predicted_trajectory": calls, "usage": usage if isinstance(usage, dict) else None}
