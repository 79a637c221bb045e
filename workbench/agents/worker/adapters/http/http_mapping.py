"""The settings of an HTTP agent: JSONPaths and templates, mapping of requests and answers, and certificates."""

from __future__ import annotations

import contextlib
import json
import re
import ssl
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

from ...loading import suggest_name
from ...responses import refuse_misspelt_keys
from .. import base
from ..external_session import SPANS, describe_json, read_reported_answer

# JSONPaths and templates. Their libraries are imported before the agent is: see `Adapter.import_libraries`.


@cache
def import_jsonpath() -> Any:
    """Import and keep the library of JSONPaths: later the name may mean a file of the agent."""
    import jsonpath

    return jsonpath


@cache
def import_jinja2() -> Any:
    """Import and keep the library of templates, as `import_jsonpath` does."""
    import jinja2.meta
    import jinja2.sandbox

    return jinja2


class Path:
    """A JSONPath of the settings; `key` is its place there. Raises LoadError if it is invalid."""

    def __init__(self, text: str, *, key: str) -> None:
        jsonpath = import_jsonpath()
        try:
            path = jsonpath.compile(text)
        except jsonpath.JSONPathError as error:
            reason = str(error).strip().splitlines()[0]
            message = f'{key}: found {text!r}, expected a JSONPath such as "$.output.text" ({reason})'
            raise base.LoadError(message) from None
        if not isinstance(path, jsonpath.JSONPath):
            raise base.LoadError(f"{key}: found {text!r}, expected one JSONPath, not several put together")
        self._path = path
        self.text = text
        self.is_single: bool = path.singular_query()
        """True if it leads to one value at most."""
        heads = (jsonpath.JSONPath(env=path.env, segments=path.segments[:end]) for end in range(len(path.segments) + 1))
        self._head = [head for head in heads if head.singular_query()][-1]

    def values(self, document: Any) -> list[Any]:
        """Return the values that it leads to."""
        return list(self._path.findall(document))

    def has_place(self, document: Any) -> bool:
        """Return True if the container that it searches exists."""
        return bool(self._head.findall(document))


Fill = Callable[["dict[str, Any]"], Any]
"""Creates a JSON value from the values for templates."""

_WHOLE = re.compile(r"\{\{(?![-+])(?P<expression>(?:(?!\{\{|\}\}).)+)(?<![-+])\}\}", re.DOTALL)


class Templates:
    """Compiles templates of jinja2, rendered in a sandbox, that may use certain names.

    `key` is their place in the settings. Inserted values are data and never rendered again.
    """

    def __init__(self, names: tuple[str, ...], *, key: str) -> None:
        self._jinja2 = import_jinja2()
        self._names = names
        self._key = key
        environment, undefined = self._jinja2.sandbox.ImmutableSandboxedEnvironment, self._jinja2.StrictUndefined
        self._texts = environment(undefined=undefined)
        self._json = environment(undefined=undefined, finalize=self._as_json)

    def compile_json(self, text: str) -> Fill:
        """Compile a template of a whole JSON text. Values are inserted as JSON, so that quotes cannot break it."""
        self._check(text)
        template = self._json.from_string(text)

        def fill(data: dict[str, Any]) -> Any:
            written = template.render(data)
            try:
                return json.loads(written)
            except ValueError as error:
                raise base.LoadError(
                    f"{self._key}: gives no JSON ({error}): values are written as JSON, so remove the quotes "
                    'around them: {"text": {{ prompt }}}'
                ) from None

        return fill

    def compile_value(self, value: Any) -> Fill:
        """Compile a JSON value whose texts are templates; a text that is one expression becomes its value."""
        if isinstance(value, dict):
            items = [(key, self.compile_value(item)) for key, item in value.items()]
            return lambda data: {key: fill(data) for key, fill in items}
        if isinstance(value, list):
            fills = [self.compile_value(item) for item in value]
            return lambda data: [fill(data) for fill in fills]
        if not isinstance(value, str) or "{" not in value:
            return lambda _: value
        self._check(value)
        whole = _WHOLE.fullmatch(value.strip())
        if whole is None:
            fill: Fill = self._texts.from_string(value).render
            return fill
        expression = self._texts.compile_expression(whole["expression"], undefined_to_none=False)
        return lambda data: self._require_defined(expression(**data))

    def _check(self, text: str) -> None:
        """Raise LoadError if a text is no template, or uses an unknown name."""
        try:
            names = self._jinja2.meta.find_undeclared_variables(self._texts.parse(text))
        except self._jinja2.TemplateSyntaxError as error:
            raise base.LoadError(f"{self._key}: line {error.lineno}: {error.message}") from None
        for name in sorted(names.difference(self._names)):
            near = suggest_name(name, list(self._names))
            raise base.LoadError(f"{self._key}: found {name!r}, expected one of {', '.join(self._names)}{near}")

    def _as_json(self, value: Any) -> Any:
        """Return the text for a value in a JSON template. A value with `__html__` comes from `tojson` and is JSON
        already."""
        is_text = hasattr(value, "__html__") or isinstance(value, self._jinja2.Undefined)
        return value if is_text else json.dumps(value)

    def _require_defined(self, value: Any) -> Any:
        if isinstance(value, self._jinja2.StrictUndefined):
            str(value)  # raises
        return value


# Answers.

MAPPED = ("response", "predicted_trajectory", "usage", "state", "spans")
"""Parts of an answer whose path the settings may name."""

_USUAL = ("response", "predicted_trajectory", "usage", "state", "tool_responses", "intermediate_responses", SPANS)
_EXPECTED = (
    'expected JSON with "response" (and "predicted_trajectory"), a chat completion, or a table [targets.{name}.http] '
    'that says where the response is: response = "$.path.to.text"'
)
_CALLS_UNKNOWN = (
    "the answer does not say which tools were called: it has no predicted_trajectory, and [targets.{name}.http] names "
    "no path to it"
)
_LEFT_OUT = '; if the key is missing when no tool was called, use a path such as "$..tool_calls[*]"'
_BEGINNING = 200


class AnswerMapping:
    """The paths of `[targets.NAME.http]`. Raises LoadError for an invalid path."""

    def __init__(self, target: dict[str, Any]) -> None:
        self._expected = _EXPECTED.format(name=target["name"])
        self._calls_unknown = _CALLS_UNKNOWN.format(name=target["name"])
        texts = {key: text for key, text in target["options"].items() if key in MAPPED}
        self._paths: dict[str, Path] = {}
        if texts:
            place = f"targets.{target['name']}.http"
            self._paths = {key: Path(text, key=f"{place}.{key}") for key, text in texts.items()}

    def read(self, text: str, *, content_type: str) -> dict[str, Any]:
        """Read an answer for `ExternalSession.ask`. Raises AgentFault with the actual and the expected content."""
        value = self._parse_body(
            text.removeprefix("\ufeff"), content_type=content_type.partition(";")[0].strip().lower()
        )
        if isinstance(value, str) and not self._paths:
            return {
                **read_reported_answer({"response": value}, how="answered"),
                "calls_unknown_by_design": self._calls_unknown,
            }
        known = self._read_usual_keys(value)
        known.update({key: self._find_value(value, key, path) for key, path in self._paths.items() if key != "spans"})
        if "spans" in self._paths:  # missing spans are no error
            spans = self._paths["spans"].values(value)
            known[SPANS] = spans[0] if len(spans) == 1 else spans or None
        _refuse_error(value, known)
        if "response" not in known and "predicted_trajectory" not in known:
            raise base.AgentFault(f"answered with {describe_json(value)}, {self._expected}")
        if known.get("predicted_trajectory") is not None and not isinstance(known["predicted_trajectory"], (list, str)):
            found = describe_json(known["predicted_trajectory"])
            raise base.AgentFault(f"answered with {found} as predicted_trajectory, expected a list of calls")
        answer = read_reported_answer({key: item for key, item in known.items() if item is not None}, how="answered")
        return answer if self._can_report_calls(value) else {**answer, "calls_unknown_by_design": self._calls_unknown}

    def _can_report_calls(self, value: Any) -> bool:
        """Return True if the format reports tool calls, so that their absence means that no tool was called."""
        return "predicted_trajectory" in self._paths or (
            isinstance(value, dict) and _parse_completion(value) is not None
        )

    def _parse_body(self, text: str, *, content_type: str) -> Any:
        if not text.strip():
            raise base.AgentFault(f"answered with nothing, {self._expected}")
        is_plain = content_type == "text/plain" and not self._paths
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            if is_plain:
                return text
        else:
            return value if isinstance(value, (dict, str)) or not is_plain else text  # a number in plain text
        kind = "no JSON"
        if content_type == "text/html" or text.lstrip()[:9].lower().startswith(("<!doctype", "<html")):
            kind = "HTML (a page for people, perhaps of an error or a login)"
        elif content_type == "text/event-stream":
            kind = "a stream of events; most agents can be asked for one answer instead"
        raise base.AgentFault(f"answered with {kind}: {shorten(text)!r}; {self._expected}")

    def _read_usual_keys(self, value: Any) -> dict[str, Any]:
        """Return the usual keys of an answer, which need no path."""
        if not isinstance(value, dict):
            return {}
        usual = {key: value[key] for key in _USUAL if key in value}
        completion = _parse_completion(value)
        if completion is not None:
            return {**completion, **{key: item for key, item in usual.items() if item is not None}}
        try:
            refuse_misspelt_keys({**value, **dict.fromkeys(self._paths)})
        except base.AgentFault as error:
            raise base.AgentFault(f"answered with an invalid value: {error}") from None
        return usual

    def _find_value(self, value: Any, key: str, path: Path) -> Any:
        """Return the value at a path; several texts of a response are joined."""
        found = path.values(value)
        if path.is_single:
            if not found:
                # Not the same as no calls: a path with a typo would then report no calls for every answer.
                hint = _LEFT_OUT if key == "predicted_trajectory" else ""
                raise base.AgentFault(
                    f"answered with {describe_json(value)}, but nothing is at {path.text} ({key}){hint}"
                )
            return found[0]
        if not path.has_place(value):
            raise base.AgentFault(
                f"answered with {describe_json(value)}, but the parent of {path.text} is missing ({key})"
            )
        if key == "predicted_trajectory":
            return found
        texts = [item for item in found if isinstance(item, str)]
        if key == "response" and texts and len(texts) == len(found):
            return "".join(texts)
        if len(found) != 1:
            raise base.AgentFault(
                f"answered with {describe_json(value)}, but {len(found)} values are at {path.text} ({key})"
            )
        return found[0]


def shorten(text: str) -> str:
    """Return the beginning of a text on one line."""
    words = " ".join(text[: 4 * _BEGINNING].split())
    return words if len(words) <= _BEGINNING else words[: _BEGINNING - 3] + "..."


def _refuse_error(value: Any, known: dict[str, Any]) -> None:
    """Raise AgentFault if a service reports an error and no response."""
    error = value.get("error") if isinstance(value, dict) else None
    if not error or known.get("response") or known.get("predicted_trajectory"):
        return
    code, message = (error.get("code"), error.get("message")) if isinstance(error, dict) else (None, error)
    text = shorten(message if isinstance(message, str) else json.dumps(error))
    raise base.AgentFault(f"answered with an error: {text}", kind=base.classify_status(code))


def _parse_completion(value: dict[str, Any]) -> dict[str, Any] | None:
    """Read a chat completion in OpenAI's form; None for any other value."""
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
    if calls is None and isinstance(message.get("function_call"), dict):  # the older form
        calls = [{"function": message["function_call"]}]
    usage = value.get("usage")
    return {"response": content, "predicted_trajectory": calls, "usage": usage if isinstance(usage, dict) else None}


# Requests.

NAMES = ("prompt", "content", "messages", "history", "turn", "session_id", "user_id", "app_name", "state")
"""Names for templates: text and content of the user's message; the conversation including it, as chat models take it;
earlier turns; the number of the turn, from 0; the session with its user, app and state."""


class RequestMapping:
    """The `body` of `[targets.NAME.http]`. Raises LoadError if it is no template, or uses an unknown name."""

    def __init__(self, target: dict[str, Any]) -> None:
        options = target["options"]
        self._key = f"targets.{target['name']}.http.body"
        self.method: str = options.get("method", "POST")
        body = options.get("body")
        self._fill: Callable[[dict[str, Any]], Any] = _fill_default
        if body is None:
            return
        templates = Templates(NAMES, key=self._key)
        self._fill = templates.compile_json(body) if isinstance(body, str) else templates.compile_value(body)

    def body(self, data: dict[str, Any]) -> Any:
        """Build the JSON value to send from the values of NAMES. Raises LoadError if the template fails."""
        try:
            return self._fill(data)
        except base.LoadError:
            raise
        except Exception as error:  # a template may raise anything
            raise base.LoadError(f"{self._key}: {str(error) or type(error).__name__}") from None

    def query(self, data: dict[str, Any]) -> dict[str, str]:
        """Return the query of a URL. Values that are no text are written as JSON."""
        body = self.body(data)
        if not isinstance(body, dict):
            raise base.LoadError(f"{self._key}: expected a table for GET, whose keys are the query")
        return {key: value if isinstance(value, str) else json.dumps(value) for key, value in body.items()}


def _fill_default(data: dict[str, Any]) -> Any:
    return {"prompt": data["prompt"], "session_id": data["session_id"]}


# Certificates.

_READ = "set_default_verify_paths"

_deferred: list[ssl.SSLContext] = []
"""Contexts without certificates yet, which trust no server."""


@contextlib.contextmanager
def defer_certificates() -> Iterator[None]:
    """Defer the certificates that aiohttp reads when it is imported.

    Reading them takes longer than the rest of the import, most HTTP agents need none, and `.env`, which may name
    others, is not loaded yet.
    """
    kept = ssl.SSLContext.__dict__.get(_READ)
    setattr(ssl.SSLContext, _READ, _read_later)
    try:
        yield
    finally:
        if kept is None:
            delattr(ssl.SSLContext, _READ)  # the inherited method applies again
        else:
            setattr(ssl.SSLContext, _READ, kept)


def _read_later(context: ssl.SSLContext) -> None:
    _deferred.append(context)


def read_certificates() -> None:
    """Load the certificates that the environment names now into aiohttp's contexts."""
    while _deferred:
        _deferred.pop().set_default_verify_paths()
