"""Requests to models and their answers as data: equality, differences and cost."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from workbench.llm.prompt_templates import Prices, UnknownPrice, count_tokens
from workbench.model.patterns import Pattern
from workbench.model.results import TokenUsage
from workbench.model.text import measure_common_prefix

# Addresses of models.

ENDPOINTS: Mapping[str, str] = {
    "Gemini API": r"^https?://generativelanguage\.googleapis\.com/",
    "Vertex AI": r"^https?://([\w-]+-)?aiplatform(\.\w+)?\.googleapis\.com/.*/(models|endpoints)/",
    "Gemini, at any address": r":(generateContent|streamGenerateContent|embedContent|batchEmbedContents)(\?|$)",
    "OpenAI": r"^https?://(\w+\.)?api\.openai\.com/v\d+/(chat/completions|completions|responses|embeddings|audio)(/|\?|$)",
    "Azure OpenAI": r"^https?://[\w.-]+\.(openai|services\.ai|cognitiveservices)\.azure\.com/",
    "OpenAI, at any address (LiteLLM, vLLM and others)": (
        r"/(chat/completions|v\d+/(completions|responses|embeddings))(\?|$)"
    ),
    "Anthropic": r"^https?://api\.anthropic\.com/",
    "Anthropic, at any address": r"/v1/messages(\?|$)",
    "Mistral": r"^https?://(api|codestral)\.mistral\.ai/",
    "Amazon Bedrock": r"^https?://bedrock-runtime\.[\w-]+\.amazonaws\.com/",
    "Ollama": r"^https?://[^/]+:11434/",
    "Cohere": r"^https?://api\.cohere\.(ai|com)/",
    "gRPC of the Gemini API and Vertex AI, which stays live": (
        r"^grpc://.*/google\.(ai\.generativelanguage|cloud\.aiplatform)\.\w+\.(Generative|Prediction|Text|Discuss)Service/"
    ),
    "Others": (
        r"^https?://(api\.(groq\.com|deepseek\.com|x\.ai|together\.xyz|fireworks\.ai|perplexity\.ai|cerebras\.ai)"
        r"|openrouter\.ai|router\.huggingface\.co|api-inference\.huggingface\.co)/"
    ),
}
"""Expressions for the addresses of models, by what they belong to. `[replay] endpoints` adds addresses."""


def make_expression(endpoint: str) -> str:
    """Return the expression for an address of the settings: a host, or the begin of an address; `*` is any text."""
    pattern = re.escape(endpoint).replace(r"\*", ".*")
    return f"^{pattern}" if "://" in endpoint else rf"^https?://{pattern}([:/?]|$)"


# Equality of requests.

VOLATILE_FIELDS = (
    "user",
    "metadata",
    "safety_identifier",
    "prompt_cache_key",
    "labels",
    "config.labels",
    "contents.*.parts.*.function_call.id",
    "contents.*.parts.*.function_response.id",
    "contents.*.parts.*.functionCall.id",
    "contents.*.parts.*.functionResponse.id",
)
"""Fields of a request that differ each time and do not reach the model, or only link a call with its response."""


_PROMPTS = frozenset({"contents", "messages", "input", "prompt"})
"""A body with one of these is a request of a known protocol, which defines the fields above."""


@dataclass(frozen=True)
class RequestRules:
    """The rules by which requests are equal. `volatile_fields` are ignored, in addition to VOLATILE_FIELDS.

    A field is a path such as `config.labels.run` or `messages.*.id`; `*` is any key or index. Matches of the
    expressions in `volatile_texts` are ignored in all texts.
    """

    volatile_fields: tuple[str, ...] = ()
    volatile_texts: tuple[str, ...] = ()

    @cached_property
    def _fields(self) -> Sequence[Sequence[str]]:
        return [*(path.split(".") for path in VOLATILE_FIELDS), *self._own_fields]

    @cached_property
    def _own_fields(self) -> Sequence[Sequence[str]]:
        return [path.split(".") for path in self.volatile_fields]

    @cached_property
    def _texts(self) -> Sequence[Pattern]:
        return [Pattern(each) for each in self.volatile_texts]

    def identify(self, request: Mapping[str, Any]) -> str:
        """Return a hash that equal requests share. Raises PatternTooSlow."""
        text = json.dumps(self.simplify(request), ensure_ascii=False, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()

    def simplify(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Return a request without its volatile parts."""
        body = request["body"]
        is_known = isinstance(body, dict) and not _PROMPTS.isdisjoint(body)
        fields = self._fields if is_known else self._own_fields
        return {"method": request["method"], "url": request["url"], "body": self._clean(body, fields)}

    def _clean(self, value: Any, fields: Sequence[Sequence[str]]) -> Any:
        if isinstance(value, dict):
            return {
                key: self._clean(item, inner)
                for key, item in value.items()
                if () not in (inner := _descend(fields, key))
            }
        if isinstance(value, list):
            inner = _descend(fields, "*")
            return [self._clean(item, inner) for item in value]
        if isinstance(value, str):
            for pattern in self._texts:
                value = pattern.replace(value, "…")
        return value


def _descend(fields: Sequence[Sequence[str]], key: str) -> list[Sequence[str]]:
    """Return the rest of each path below a key; an empty rest means the field itself."""
    return [tuple(path[1:]) for path in fields if path and path[0] in (key, "*")]


# Differences between two requests, described for people.

_INSTRUCTIONS = re.compile(
    r"^body\.(config\.system_instruction|config\.systemInstruction|systemInstruction|system_instruction|system"
    r"|instructions)(\.|$)"
)
_TOOLS = re.compile(r"^body\.(config\.)?tools(\.|$)")
_MESSAGES = re.compile(r"^body\.(contents|messages|input)\.(\d+)(\.|$)")
_TOOL_RESULTS = frozenset({"function_response", "functionResponse"})
_MONTHS = "(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*"
_TIME = r"\d{1,2}:\d\d(?::\d\d(?:\.\d+)?)?(?:\s?(?:Z|UTC|[ap]m\b|[+-]\d\d:?\d\d))?"
_DATE = re.compile(
    rf"\d{{4}}[-/]\d\d[-/]\d\d(?:[T ]{_TIME})?|\b{_TIME}"
    rf"|\b{_MONTHS} \d{{1,2}}(?:, \d{{4}})?|\b\d{{1,2}}\.? {_MONTHS} \d{{4}}"
    r"|\b(?:Mon|Tues?|Wed(?:nes)?|Thu(?:rs)?|Fri|Sat(?:ur)?|Sun)(?:day)?\b|\b1\d{9}(?:\.\d+|\d{3})?\b",
    re.IGNORECASE,
)
_ID = re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b|\b[0-9a-f]{16,}\b", re.IGNORECASE)


@dataclass(frozen=True)
class RequestMismatch:
    """The first difference of a request to a recorded one.

    `what` is the part that differs, such as `instruction, line 4` or `message 3 (user)`. `before` and `now` are the
    texts, None where there is none; they are JSON if one of them is no text (`is_json`). `path` is the place in the
    request.
    """

    what: str
    path: str
    before: str | None
    now: str | None
    is_json: bool = False

    @property
    def hint(self) -> str | None:
        """What to declare if the difference looks like a date or a random id; None if it does not."""
        description = self._guess()
        if description is None:
            return None
        texts = "" if self.is_json else "it in [replay] volatile_texts, or "
        fields = f"the whole field in {'[replay] ' if self.is_json else ''}volatile_fields"
        path = self.path.removeprefix("body.")
        return f"it looks like {description}: if it does not matter, declare {texts}{fields} ({path})"

    def _guess(self) -> str | None:
        """Return what the texts look like that differ each time."""
        for patterns, description in (
            ((_DATE,), "a date or time"),
            ((_ID,), "a random id"),
            ((_ID, _DATE), "dates and ids"),
        ):
            before, now = self.before or "", self.now or ""
            for pattern in patterns:
                before, now = pattern.sub("", before), pattern.sub("", now)
            if before == now and self.before != self.now:
                return description
        return "a random number" if self.path.rpartition(".")[2] == "seed" else None


def find_differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> Sequence[RequestMismatch]:
    """Find the differences of a request to a recorded one; empty if they are equal.

    First are the model and its address, then the instruction, the tools, the messages, and the other parameters.
    """
    differences = [_describe_difference(*each, before, now) for each in _iter_differences(before, now, ())]
    return sorted(differences, key=lambda each: _rank(each.path))


def _rank(path: str) -> int:
    if path in ("method", "url", "body.model"):
        return 0
    return next((rank for rank, part in enumerate((_INSTRUCTIONS, _TOOLS, _MESSAGES), start=1) if part.match(path)), 4)


def _iter_differences(before: Any, now: Any, place: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any, Any]]:
    if isinstance(before, dict) and isinstance(now, dict):
        for key in dict.fromkeys((*before, *now)):
            yield from _iter_differences(before.get(key, _NOTHING), now.get(key, _NOTHING), (*place, key))
    elif isinstance(before, list) and isinstance(now, list):
        for index in range(max(len(before), len(now))):
            old, new = (side[index] if index < len(side) else _NOTHING for side in (before, now))
            yield from _iter_differences(old, new, (*place, str(index)))
    elif before != now or type(before) is not type(now):
        yield place, before, now


_NOTHING = object()


def _describe_difference(
    place: tuple[str, ...],
    recorded_value: Any,
    current_value: Any,
    recorded_request: Mapping[str, Any],
    current_request: Mapping[str, Any],
) -> RequestMismatch:
    path = ".".join(place)
    is_json = any(value is not _NOTHING and not isinstance(value, str) for value in (recorded_value, current_value))
    recorded_text, current_text = (_format_value(value, as_json=is_json) for value in (recorded_value, current_value))
    part = _name_place(path, place, current_request if recorded_value is _NOTHING else recorded_request)
    if recorded_text is not None and current_text is not None and "\n" in recorded_text + current_text:
        line, recorded_text, current_text = _trim_lines(recorded_text, current_text)
        part = f"{part}, line {line}"
    return RequestMismatch(part, path, recorded_text, current_text, is_json)


def _format_value(value: Any, *, as_json: bool) -> str | None:
    if value is _NOTHING:
        return None
    return json.dumps(value, ensure_ascii=False) if as_json else str(value)


def _trim_lines(before: str, now: str) -> tuple[int, str | None, str | None]:
    """Return the number of the first line that differs, and both texts without the equal lines around it."""
    old, new = before.split("\n"), now.split("\n")
    start = measure_common_prefix(old, new)
    end = min(measure_common_prefix(old[::-1], new[::-1]), len(old) - start, len(new) - start)
    differing_lines = (lines[start : len(lines) - end] for lines in (old, new))
    texts = ["\n".join(lines) if lines else None for lines in differing_lines]
    return start + 1, texts[0], texts[1]


def _name_place(path: str, place: tuple[str, ...], request: Mapping[str, Any]) -> str:
    if path == "url":
        return "model or address"
    if path == "body.model":
        return "model"
    if _INSTRUCTIONS.match(path):
        return "instruction"
    if _TOOLS.match(path):
        name = _find_tool_name(place, request)
        return f"tool {name}" if name else "tools"
    message = _MESSAGES.match(path)
    if message:
        item = get_item(request, place[:3])
        role = item.get("role") if isinstance(item, dict) else None
        if role in ("system", "developer"):
            return "instruction"
        tool = _find_tool_name(place, request) if not _TOOL_RESULTS.isdisjoint(place) else None
        detail = f"result of {tool}" if tool else role
        return f"message {int(message[2]) + 1}" + (f" ({detail})" if isinstance(detail, str) else "")
    return f"parameter {path.removeprefix('body.').removeprefix('config.')}"


def _find_tool_name(place: tuple[str, ...], request: Mapping[str, Any]) -> str | None:
    """Return the name of the tool that holds a place: the innermost object with a name."""
    for length in range(len(place), 1, -1):
        item = get_item(request, place[:length])
        name = item.get("name") if isinstance(item, dict) else None
        if isinstance(name, str):
            return name
    return None


def get_item(value: Any, place: Sequence[str]) -> Any:
    """Return the item at a place in JSON data; None if there is none."""
    for key in place:
        if isinstance(value, dict):
            value = value.get(key)
        elif isinstance(value, list):
            value = value[int(key)] if int(key) < len(value) else None
        else:
            return None
    return value


# The cost of a call, by the usage that its answer reports.

_COUNTS = {
    "prompt": ("prompt_token_count", "promptTokenCount", "prompt_tokens", "input_tokens"),
    "tool_use_prompt": ("tool_use_prompt_token_count", "toolUsePromptTokenCount"),
    "candidates": ("candidates_token_count", "candidatesTokenCount", "completion_tokens", "output_tokens"),
    "thoughts": ("thoughts_token_count", "thoughtsTokenCount"),
    "cached": ("cached_content_token_count", "cachedContentTokenCount"),
    "total": ("total_token_count", "totalTokenCount", "total_tokens"),
}
_MODEL_IN_PATH = re.compile(r"/models?/([^/:?]+)")
_PROVIDERS = {"openai.": "openai", "anthropic.": "anthropic", "mistral.": "mistral", "groq.": "groq"}


def calculate_cost(request: Mapping[str, Any], response: Mapping[str, Any], prices: Prices) -> float | None:
    """Return the cost of an answer in US dollars; None if it reports no tokens, or its model has no price."""
    tokens, model = count_tokens(TokenUsage(**read_usage(response))), find_model(request)
    if tokens is None or model is None:
        return None
    provider = next((name for part, name in _PROVIDERS.items() if part in request["url"]), "")
    for name in (model, f"{provider}/{model}"):
        try:
            return float(prices.cost(name, tokens))
        except UnknownPrice:
            continue
    return None


def read_usage(response: Mapping[str, Any]) -> dict[str, int]:
    """Return the tokens that an answer reports, by the fields of `TokenUsage`."""
    usage: dict[str, Any] = {}
    for answer in iter_answers(response):
        for part in (answer, answer.get("message"), answer.get("response")):  # streams of Anthropic and OpenAI
            for name in ("usage_metadata", "usageMetadata", "usage"):
                reported = part.get(name) if isinstance(part, dict) else None
                usage |= reported if isinstance(reported, dict) else {}
    counts = {part: next((usage[name] for name in names if name in usage), None) for part, names in _COUNTS.items()}
    return {part: count for part, count in counts.items() if type(count) is int}


def find_model(request: Mapping[str, Any]) -> str | None:
    body, in_path = request["body"], _MODEL_IN_PATH.search(request["url"])
    model = (body.get("model") if isinstance(body, dict) else None) or (in_path[1] if in_path else None)
    return model if isinstance(model, str) else None


def iter_answers(response: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the JSON objects of an answer: those of a stream, or the only one."""
    if "items" in response:
        yield from (data for _, data in response["items"])
        return
    text = "".join(chunk for _, chunk in response.get("chunks", ()) if isinstance(chunk, str))
    lines = [line.removeprefix("data:") for line in text.splitlines() if line.startswith("data:")]
    for line in lines or [text]:
        try:
            parsed = json.loads(line)
        except ValueError:  # the end of a stream: `[DONE]`
            continue
        yield from (each for each in (parsed if isinstance(parsed, list) else [parsed]) if isinstance(each, dict))


def is_failure(response: Mapping[str, Any] | None) -> bool:
    """True for a status such as 429, 503 or 401, and for an error or a page of a gateway whatever its status.

    With another key or at another time the request may get an answer.
    """
    if response is None:
        return False
    if response.get("status", 200) >= 400:
        return True
    texts = [chunk for _, chunk in response.get("chunks", ())]
    if "chunks" not in response or not all(isinstance(text, str) for text in texts):  # no HTTP, or a picture
        return False
    answers = [*iter_answers(response)]
    if answers:
        return any(answer.get("error") for answer in answers)
    text, kind = "".join(texts).strip(), response.get("headers", {}).get("content-type", "")
    if _is_json(text) or _is_json(text.partition("\n")[0]):  # the second: an object in each line
        return text == "null"
    return "json" in kind or "html" in kind or text.startswith("<")


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True
