"""Model calls of agents that are recorded and replayed: which requests are the same, and what answers each of them."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import takewhile
from pathlib import Path
from typing import Any

from workbench.agents.agent_host import AgentError
from workbench.llm.prompt_templates import Prices, UnknownPrice, count_tokens
from workbench.model.identity import JobKey
from workbench.model.results import Failure, FailureKind, ModelCalls, RequestDifference, TokenUsage, add_costs
from workbench.model.target import ModelMode
from workbench.model.text import mask_data, mask_secrets, redact, redact_data, shorten
from workbench.model.trace import SIMULATED, Span, SpanKind
from workbench.store.errors import StoreError
from workbench.store.model_answers import (
    ModelRecording,
    RecordedModelCall,
    RecordedModels,
    RecordingStore,
    add_recording,
    sort_recording,
)

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
    "Others": (
        r"^https?://(api\.(groq\.com|deepseek\.com|x\.ai|together\.xyz|fireworks\.ai|perplexity\.ai|cerebras\.ai)"
        r"|openrouter\.ai|router\.huggingface\.co|api-inference\.huggingface\.co)/"
    ),
}
"""Expressions for the addresses of models, by what they belong to. `[replay] endpoints` adds addresses."""


# Which requests are the same.

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
"""A body with one of these is a request of a known protocol: the fields above mean what they mean there."""


@dataclass(frozen=True)
class RequestRules:
    """What of a request counts. `volatile_fields` and `volatile_texts` are added to what is left out anyway.

    A field is a path such as `config.labels.run` or `messages.*.id`; `*` is any key or index. What matches an
    expression of `volatile_texts` is left out of all texts.
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
    def _texts(self) -> Sequence[re.Pattern[str]]:
        return [re.compile(each) for each in self.volatile_texts]

    def identify(self, request: Mapping[str, Any]) -> str:
        """Return what is equal for requests that are the same."""
        text = json.dumps(self.simplify(request), ensure_ascii=False, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()

    def simplify(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Return a request without what does not count."""
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
                value = pattern.sub("…", value)
        return value


def _descend(fields: Sequence[Sequence[str]], key: str) -> list[Sequence[str]]:
    """Return what is left of the paths of fields below a key; an empty rest is the field itself."""
    return [tuple(path[1:]) for path in fields if path and path[0] in (key, "*")]


# What differs between two requests, in the words of people.

_INSTRUCTIONS = re.compile(
    r"^body\.(config\.system_instruction|config\.systemInstruction|systemInstruction|system_instruction|system"
    r"|instructions)(\.|$)"
)
_TOOLS = re.compile(r"^body\.(config\.)?tools(\.|$)")
_MESSAGES = re.compile(r"^body\.(contents|messages|input)\.(\d+)(\.|$)")
_TOOL_RESULTS = frozenset({"function_response", "functionResponse"})
_DATE = re.compile(r"\d{4}-\d\d-\d\d|\b\d{1,2}:\d\d\b")
_ID = re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b|\b[0-9a-f]{16,}\b", re.IGNORECASE)


@dataclass(frozen=True)
class Difference:
    """The first difference of a request to a recorded one.

    `what` is the part that differs, such as `instruction, line 4` or `message 3 (user)`. `before` and `now` are the
    texts, None where there is none; `path` is the place in the request.
    """

    what: str
    path: str
    before: str | None
    now: str | None

    @property
    def hint(self) -> str | None:
        """What to declare if the difference looks like a date or a random id; None if it does not."""
        for pattern, looks in ((_DATE, "a date or time"), (_ID, "a random id")):
            before, now = (pattern.sub("", text or "") for text in (self.before, self.now))
            if before == now and self.before != self.now:
                field = self.path.removeprefix("body.")
                return (
                    f"it looks like {looks}: if it does not matter, declare it in [replay] volatile_texts, or the "
                    f"whole field in volatile_fields ({field})"
                )
        return None


def find_differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> Sequence[Difference]:
    """Find the differences of a request to a recorded one; empty if they are equal.

    First are the model and its address, then the instruction, the tools, the messages, and the other parameters.
    """
    found = [_describe_difference(*each, before, now) for each in _iter_differences(before, now, ())]
    return sorted(found, key=lambda each: _rank(each.path))


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
    place: tuple[str, ...], before: Any, now: Any, old: Mapping[str, Any], new: Mapping[str, Any]
) -> Difference:
    path = ".".join(place)
    was, is_now = _as_text(before), _as_text(now)
    what = _name_place(path, place, new if before is _NOTHING else old)
    if was is not None and is_now is not None and "\n" in was + is_now:
        line, was, is_now = _trim_lines(was, is_now)
        what = f"{what}, line {line}"
    return Difference(what, path, was, is_now)


def _as_text(value: Any) -> str | None:
    if value is _NOTHING:
        return None
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _trim_lines(before: str, now: str) -> tuple[int, str | None, str | None]:
    """Return the number of the first line that differs, and both texts without the equal lines around it."""
    old, new = before.split("\n"), now.split("\n")
    start = _count_equal(old, new)
    end = min(_count_equal(old[::-1], new[::-1]), len(old) - start, len(new) - start)
    rest = (lines[start : len(lines) - end] for lines in (old, new))
    texts = ["\n".join(lines) if lines else None for lines in rest]
    return start + 1, texts[0], texts[1]


def _count_equal(old: Sequence[str], new: Sequence[str]) -> int:
    """Count the equal items at the start."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(old, new, strict=False)))


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
        item = _get(request, place[:3])
        role = item.get("role") if isinstance(item, dict) else None
        if role in ("system", "developer"):
            return "instruction"
        tool = _find_tool_name(place, request) if not _TOOL_RESULTS.isdisjoint(place) else None
        about = f"result of {tool}" if tool else role
        return f"message {int(message[2]) + 1}" + (f" ({about})" if isinstance(about, str) else "")
    return f"parameter {path.removeprefix('body.').removeprefix('config.')}"


def _find_tool_name(place: tuple[str, ...], request: Mapping[str, Any]) -> str | None:
    """Return the name of the tool that holds a place: the innermost object with a name."""
    for length in range(len(place), 1, -1):
        item = _get(request, place[:length])
        name = item.get("name") if isinstance(item, dict) else None
        if isinstance(name, str):
            return name
    return None


def _get(value: Any, place: Sequence[str]) -> Any:
    for key in place:
        if isinstance(value, dict):
            value = value.get(key)
        elif isinstance(value, list):
            value = value[int(key)] if int(key) < len(value) else None
    return value


# What a call cost, by what its answer says.

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
    """Return what an answer cost in US dollars; None if it reports no tokens, or its model has no price."""
    tokens, model = count_tokens(TokenUsage(**_read_usage(response))), _find_model(request)
    if tokens is None or model is None:
        return None
    provider = next((name for part, name in _PROVIDERS.items() if part in request["url"]), "")
    for name in (model, f"{provider}/{model}"):
        try:
            return float(prices.cost(name, tokens))
        except UnknownPrice:
            continue
    return None


def _read_usage(response: Mapping[str, Any]) -> dict[str, int]:
    """Return the tokens that an answer reports, by the fields of `TokenUsage`."""
    usage: dict[str, Any] = {}
    for answer in _iter_answers(response):
        for part in (answer, answer.get("message"), answer.get("response")):  # streams of Anthropic and OpenAI
            for name in ("usage_metadata", "usageMetadata", "usage"):
                found = part.get(name) if isinstance(part, dict) else None
                usage |= found if isinstance(found, dict) else {}
    counts = {part: next((usage[name] for name in names if name in usage), None) for part, names in _COUNTS.items()}
    return {part: count for part, count in counts.items() if type(count) is int}


def _find_model(request: Mapping[str, Any]) -> str | None:
    body, in_path = request["body"], _MODEL_IN_PATH.search(request["url"])
    model = (body.get("model") if isinstance(body, dict) else None) or (in_path[1] if in_path else None)
    return model if isinstance(model, str) else None


def _iter_answers(response: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the JSON objects of an answer: those of a stream, or the only one."""
    if "items" in response:
        yield from (data for _, data in response["items"])
        return
    text = "".join(chunk for _, chunk in response.get("chunks", ()) if isinstance(chunk, str))
    lines = [line.removeprefix("data:") for line in text.splitlines() if line.startswith("data:")]
    for line in lines or [text]:
        try:
            found = json.loads(line)
        except ValueError:  # the end of a stream: `[DONE]`
            continue
        yield from (each for each in (found if isinstance(found, list) else [found]) if isinstance(each, dict))


# Calls as spans of the trace.

_OPERATIONS = {
    "generateContent": "generate_content",
    "streamGenerateContent": "generate_content",
    "embedContent": "embeddings",
    "batchEmbedContents": "embeddings",
    "embeddings": "embeddings",
}
"""Names of operations in OpenTelemetry's conventions, by the end of an address; all others are `chat`."""
_MOST_SHOWN = 20_000
"""Characters of a text in a step."""
_CLOCK_SKEW = 0.05  # seconds between a request in the worker and in this process


def _make_span(call: _Call, *, number: int, parent: Span | None, opened: float) -> Span:
    operation = _OPERATIONS.get(re.split(r"[/:?]", call.request["url"].partition("?")[0])[-1], "chat")
    model, response, error = _find_model(call.request), call.response, call.error
    attributes: dict[str, Any] = {"url": call.request["url"]}
    if model is not None:
        attributes["model"] = model
    if call.is_replayed:
        attributes[SIMULATED] = "replayed"
    if response is not None and (usage := _read_usage(response)):
        attributes["usage"] = usage
    status = 200 if response is None else response.get("status", 200)
    start = max(call.began - opened, 0.0)
    return Span(
        id=f"model-call-{number}",
        parent_id=None if parent is None else parent.id,
        turn=call.turn,
        kind=SpanKind.MODEL,
        name=operation if model is None else f"{operation} {model}",
        start=start,
        end=start if call.is_replayed else start + call.seconds,
        error=error if error is not None or status < 400 else f"HTTP {status}",
        request=_shorten_texts(call.request["body"]),
        response=None if response is None else _shorten_texts(redact_data(_join_answers([*_iter_answers(response)]))),
        attributes=attributes,
    )


def _shorten_texts(value: Any) -> Any:
    """Shorten long texts, such as pictures: the recording has all of them."""
    if isinstance(value, dict):
        return {key: _shorten_texts(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_shorten_texts(item) for item in value]
    return shorten(value, _MOST_SHOWN) if isinstance(value, str) else value


def _join_answers(answers: Sequence[dict[str, Any]]) -> Any:
    """Return the only answer; of a stream its text, or all answers if they have none."""
    if len(answers) == 1:
        return answers[0]
    text = "".join(piece for answer in answers for piece in _iter_texts(answer))
    return {"text": text} if text else list(answers)


def _iter_texts(answer: Mapping[str, Any]) -> Iterator[str]:
    """Yield the texts in an answer of a stream of Gemini, OpenAI or Anthropic."""
    candidate = _get(answer, ("candidates", "0", "content", "parts"))
    parts = candidate if isinstance(candidate, list) else []
    places = [*(_get(part, ("text",)) for part in parts), _get(answer, ("choices", "0", "delta", "content"))]
    delta = answer.get("delta")
    places.append(delta.get("text") if isinstance(delta, dict) else delta)
    yield from (text for text in places if isinstance(text, str))


def _iter_outermost(by_id: Mapping[str, Span]) -> Iterator[Span]:
    """Yield the model spans that are not part of another one."""
    for span in by_id.values():
        around = by_id.get(span.parent_id or "")
        if span.kind is SpanKind.MODEL and (around is None or around.kind is not SpanKind.MODEL):
            yield span


def _find_calls(span: Span, calls: Mapping[int, _Call], opened: float) -> list[int]:
    """Return the calls that a model span of the agent describes: those within it or, if there are none, the nearest."""
    began = span.start or 0.0
    distances = {number: abs(call.began - opened - began) for number, call in calls.items()}
    start, end = began - _CLOCK_SKEW, (span.end or began) + _CLOCK_SKEW
    within = [number for number, call in calls.items() if start <= call.began - opened <= end]
    return within or sorted(distances, key=distances.__getitem__)[:1]


def _mark_replayed(span: Span) -> Span:
    return span.model_copy(update={"attributes": {**span.attributes, SIMULATED: "replayed"}})


def _find_parent(spans: Iterable[Span], when: float) -> Span | None:
    """Return the agent or invocation that ran at a time: of several the one that began last."""
    around = [
        span
        for span in spans
        if span.kind in (SpanKind.AGENT, SpanKind.INVOCATION)
        and span.start is not None
        and span.start - _CLOCK_SKEW <= when <= (when if span.end is None else span.end + _CLOCK_SKEW)
    ]
    return max(around, key=lambda span: span.start or 0.0, default=None)


# The model calls of one attempt at a case.


@dataclass(frozen=True, kw_only=True)
class ModelPlan:
    """The plan for the model calls of a run.

    `replay` is a file with recordings; without it, they are those of the project, which are kept up to date in the mode
    AUTO. `record` is the file that gets the calls. `fresh`: nothing is replayed, and the recordings are replaced.
    """

    mode: ModelMode
    prices: Prices
    rules: RequestRules = RequestRules()
    endpoints: tuple[str, ...] = ()
    replay: ModelRecording | None = None
    record: Path | None = None
    fresh: bool = False


@dataclass
class _Call:
    """A call that was made or replayed. It has no response while it is made."""

    turn: int
    key: str
    request: Mapping[str, Any]
    response: Mapping[str, Any] | None = None
    seconds: float = 0.0
    cost: float | None = None
    error: str | None = None
    is_replayed: bool = False
    is_whole: bool = False
    began: float = field(default_factory=time.perf_counter)


_Waiting = dict[tuple[int, str], deque[RecordedModelCall]]
"""Recorded calls that were not replayed yet, by turn and identity."""


class CaseModels:
    """Answers the model calls of one attempt at a case, and records them. See `ModelDesk`.

    The n-th request of a turn gets the answer to the n-th equal one of the recording. In the mode AUTO the models are
    asked from the first request on that differs: later answers may depend on it.
    """

    def __init__(self, plan: ModelPlan, job: JobKey, read: Callable[[], Awaitable[RecordedModels | None]]) -> None:
        """`read` reads the recording. It is called with the first request: many agents ask no model."""
        self._plan = plan
        self.job = job
        self._read = read
        self._reading = asyncio.Lock()
        self._recorded: RecordedModels | None = None
        self._turn = 0
        self._calls: dict[int, _Call] = {}
        self._waiting: _Waiting | None = None  # None: not read yet
        self.opened_at = time.perf_counter()
        """When the session of the agent was opened: times of spans are counted from there."""
        self.difference: RequestDifference | None = None
        """Why the models were asked although there is a recording: the first request that differs."""

    @property
    def interception(self) -> Mapping[str, Any]:
        """See `ModelDesk.interception`."""
        endpoints = [*ENDPOINTS.values(), *(_make_expression(each) for each in self._plan.endpoints)]
        return {
            "endpoints": endpoints,
            "own_models": self._plan.mode is not ModelMode.AUTO,
        }

    def begin_turn(self, turn: int) -> None:
        """See `ModelDesk.begin_turn`."""
        self._turn = turn

    async def answer(self, number: int, request: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """See `ModelDesk.answer`."""
        turn = self._turn
        async with self._reading:  # requests are answered in their order
            if self._waiting is None:
                self._waiting = await self._read_waiting()
            return self._answer(number, request, turn, self._waiting)

    async def _read_waiting(self) -> _Waiting:
        """Read the recorded calls, by turn and identity."""
        self._recorded = await self._read()
        waiting: _Waiting = {}
        for call in () if self._recorded is None else self._recorded.calls:
            key = call.key or self._plan.rules.identify(call.request)
            waiting.setdefault((call.turn, key), deque()).append(call)
        return waiting

    def _answer(
        self, number: int, request: Mapping[str, Any], turn: int, waiting: _Waiting
    ) -> Mapping[str, Any] | None:
        call = self._calls[number] = _Call(turn, self._plan.rules.identify(mask_data(request)), redact_data(request))
        if self._plan.mode is ModelMode.LIVE or self.difference is not None:
            return None
        found = self._take(call, waiting)
        if found is not None:
            call.response, call.seconds, call.cost = found.response, found.seconds, found.cost
            call.is_replayed = call.is_whole = True
            return found.response
        difference = None if self._recorded is None else self._find_difference(call, waiting)
        if self._plan.mode is ModelMode.REPLAY:
            nothing = f"model call {len(self._calls)}: nothing is recorded for this case and repeat"
            del self._calls[number]  # it is not made
            raise AgentError(Failure(kind=FailureKind.REPLAY, message=str(difference or nothing)))
        self.difference = difference
        return None

    def record_outcome(self, number: int, outcome: Mapping[str, Any]) -> None:
        """See `ModelDesk.record_outcome`."""
        call = self._calls.get(number)
        if call is None:
            return
        response = _redact_response(outcome)
        call.seconds = response.pop("seconds", 0.0)
        error = response.pop("error", None)
        call.error = None if error is None else redact(error)  # it may hold an address with a key
        call.is_whole = call.error is None and not response.pop("cut", False)
        call.response = None if call.error is not None else response

    def complete_trace(self, reported: Sequence[Span]) -> tuple[Span, ...]:
        """Return the spans that the agent reported, with the replayed ones marked, and spans of all other calls."""
        marked: set[tuple[int, str]] = set()
        added: list[Span] = []
        for turn in sorted({call.turn for call in self._calls.values()}):
            left = {number: call for number, call in self._calls.items() if call.turn == turn}
            by_id = {span.id: span for span in reported if span.turn == turn}
            for span in _iter_outermost(by_id):
                calls = [left.pop(number) for number in _find_calls(span, left, self.opened_at)]
                if calls and all(call.is_replayed for call in calls):
                    marked.add((turn, span.id))
            for number, call in left.items():
                parent = _find_parent(by_id.values(), call.began - self.opened_at)
                added.append(_make_span(call, number=number, parent=parent, opened=self.opened_at))
        spans = (_mark_replayed(span) if (span.turn, span.id) in marked else span for span in reported)
        return (*spans, *added)

    @property
    def counts(self) -> ModelCalls:
        """How many calls were made and replayed, and the time that replaying saved."""
        replayed = [call for call in self._calls.values() if call.is_replayed]
        return ModelCalls(
            live=len(self._calls) - len(replayed),
            replayed=len(replayed),
            saved_seconds=sum(call.seconds for call in replayed),
            saved_cost=add_costs(*(call.cost for call in replayed)),
            difference=self.difference,
        )

    @property
    def has_calls(self) -> bool:
        """True if a model was called."""
        return bool(self._calls)

    @property
    def is_worth_storing(self) -> bool:
        """True if a model was asked and every answer is complete: a replay of them is the same conversation."""
        calls = self._calls.values()
        answered = {(call.turn, call.key) for call in calls if call.is_whole}
        return any(not call.is_replayed for call in calls) and all(
            call.is_whole or (call.error is not None and (call.turn, call.key) in answered) for call in calls
        )

    def build_recording(self, prices: Prices) -> RecordedModels:
        """Return all calls that ended, for a recording. The first price imports a library."""
        for call in self._calls.values():
            if not call.is_replayed and call.response is not None:
                call.cost = calculate_cost(call.request, call.response, prices)
        calls = [
            RecordedModelCall(
                turn=call.turn,
                request=dict(call.request),
                key=call.key if self._plan.rules.identify(call.request) != call.key else None,
                response=None if call.response is None else dict(call.response),
                seconds=call.seconds,
                cost=call.cost,
                error=call.error,
            )
            for _, call in sorted(self._calls.items())
            if call.response is not None or call.error is not None
        ]
        return RecordedModels.of_job(self.job, calls)

    def _take(self, call: _Call, waiting: _Waiting) -> RecordedModelCall | None:
        """Take the next recorded call that equals a request. A failed try that was repeated is left out."""
        same = waiting.get((call.turn, call.key))
        while same:
            found = same.popleft()
            is_repeated = _has_failed(found) and same and self._plan.mode is ModelMode.AUTO
            if found.response is not None and not is_repeated:
                return found
        return None

    def _find_difference(self, call: _Call, waiting: _Waiting) -> RequestDifference:
        """Compare a request with the nearest recorded one of its turn."""
        found = RequestDifference(call=len(self._calls), turn=call.turn)
        rest = [each for (turn, _), calls in waiting.items() if turn == call.turn for each in calls]
        rules = self._plan.rules
        now = rules.simplify(call.request)
        differences = [find_differences(rules.simplify(each.request), now) for each in rest]
        nearest = min(filter(None, differences), key=len, default=None)
        if nearest is None:
            return found
        first = nearest[0]
        before, after = (None if text is None else shorten(text, _MOST_STORED) for text in (first.before, first.now))
        return found.model_copy(update={"what": first.what, "before": before, "now": after, "hint": first.hint})


_MOST_STORED = 2_000
"""Characters of each text of a difference that are stored with a result."""


def _redact_response(response: Mapping[str, Any]) -> dict[str, Any]:
    """Hide known secrets. One that begins in one chunk of the answer and ends in another joins the chunks.

    Texts that only look like secrets stay: the agent must get the answer that the model gave.
    """
    found: dict[str, Any] = mask_data(dict(response))
    chunks = response.get("chunks", ())
    texts = [text for _, text in chunks if isinstance(text, str)]
    whole = "".join(texts)
    if len(texts) == len(chunks) > 1 and (hidden := mask_secrets(whole)) != whole:
        found["chunks"] = [[chunks[-1][0], hidden]]
    return found


def _has_failed(call: RecordedModelCall) -> bool:
    status = (call.response or {}).get("status", 200)
    return call.error is not None or status == 429 or status >= 500


def _make_expression(endpoint: str) -> str:
    """Return the expression for an address of the settings: a host, or the begin of an address; `*` is any text."""
    pattern = re.escape(endpoint).replace(r"\*", ".*")
    return f"^{pattern}" if "://" in endpoint else rf"^https?://{pattern}([:/?]|$)"


# The recordings of one run.


class RunModels:
    """Opens and keeps the recordings of the cases of one run. Used on the engine's loop."""

    def __init__(self, plan: ModelPlan, root: Path, *, warn: Callable[[str], None]) -> None:
        """`root` is the project. `warn` gets what is wrong with a recording that is not needed."""
        self._writing: dict[JobKey, asyncio.Task[None]] = {}
        self._plan = plan
        self._root = root
        self._warn = warn
        self._store: RecordingStore | None = None
        self._opening = asyncio.Lock()
        self._has_recorded = False
        self.counts = ModelCalls()
        """The calls of all attempts so far."""

    def open(self, job: JobKey) -> CaseModels:
        """Return what answers the calls of a repeat."""

        async def read() -> RecordedModels | None:
            try:
                return await self._read(job)
            except StoreError as error:
                raise AgentError(Failure(kind=FailureKind.REPLAY, message=str(error))) from None

        return CaseModels(self._plan, job, read)

    def keep(self, models: CaseModels, failure: Failure | None) -> None:
        """Count the calls of an attempt; write them if it ended with an answer or with an error of the agent.

        They are written in the background: a verdict does not wait for it.
        """
        self.counts = self.counts.add(models.counts)
        if failure is None or failure.kind is FailureKind.AGENT:
            task = self._writing[models.job] = asyncio.get_running_loop().create_task(self._write(models))
            task.add_done_callback(lambda task: self._forget_task(models.job, task))

    def _forget_task(self, job: JobKey, task: asyncio.Task[None]) -> None:
        if self._writing.get(job) is task:
            del self._writing[job]

    async def _write(self, models: CaseModels) -> None:
        is_recorded = self._plan.record is not None and models.has_calls
        is_stored = self._plan.replay is None and models.is_worth_storing
        if not (is_recorded or is_stored):
            return
        try:
            recording = await asyncio.to_thread(models.build_recording, self._plan.prices)
            if is_recorded and self._plan.record is not None:
                self._has_recorded = True
                await asyncio.to_thread(add_recording, self._plan.record, recording)
            if is_stored:
                store = await self._open_store()
                await asyncio.to_thread(store.write, recording)
        except StoreError as error:
            self._warn(f"model calls are not recorded: {error}")
        except Exception as error:  # a bug of workbench must not end the run
            self._warn(f"model calls are not recorded because workbench itself failed: {error!r}")

    async def close(self) -> None:
        """Wait for what is being written, sort the file of the run, and close the store."""
        await asyncio.gather(*self._writing.values())
        if self._plan.record is not None and self._has_recorded:
            try:
                await asyncio.to_thread(sort_recording, self._plan.record)
            except StoreError as error:
                self._warn(f"the recorded model calls are not sorted: {error}")
        if self._store is not None:
            await asyncio.to_thread(self._store.close)

    async def _read(self, job: JobKey) -> RecordedModels | None:
        if job in self._writing:  # it runs again
            await self._writing[job]
        if self._plan.mode is ModelMode.LIVE or self._plan.fresh:
            return None
        if self._plan.replay is not None:
            return await asyncio.to_thread(self._plan.replay.read, job)
        try:
            store = await self._open_store()
            return await asyncio.to_thread(store.read, job)
        except StoreError as error:
            if self._plan.mode is ModelMode.REPLAY:
                raise
            self._warn(f"recorded model calls cannot be read: {error}")
            return None

    async def _open_store(self) -> RecordingStore:
        async with self._opening:
            if self._store is None:
                self._store = await asyncio.to_thread(RecordingStore, self._root)
            return self._store
