"""Recorded and replayed model calls of agents: their answers, their spans in the trace, and their recordings."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from workbench.agents.agent_host import AgentError
from workbench.llm.prompt_templates import Prices
from workbench.model.identity import CaseKey, JobKey
from workbench.model.patterns import PatternTooSlow
from workbench.model.results import Failure, FailureKind, ModelCalls, RequestDifference, add_costs
from workbench.model.target import ModelMode
from workbench.model.text import mask_data, mask_secrets, pluralise, redact, redact_data, shorten
from workbench.model.trace import SIMULATED, Span, SpanKind
from workbench.simulation.model_requests import (
    ENDPOINTS,
    RequestRules,
    calculate_cost,
    find_differences,
    find_model,
    get_item,
    is_failure,
    iter_answers,
    make_expression,
    read_usage,
)
from workbench.store.errors import StoreError, shown_path
from workbench.store.model_answers import (
    BlockName,
    CallKind,
    RecordedCalls,
    RecordedModelCall,
    RecordedModels,
    Recording,
    RecordingStore,
    add_recording,
)

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
_FARTHEST = 0.5  # seconds: the same on a machine that is very busy


def _make_span(call: _Call, *, number: int, parent: Span | None, opened: float) -> Span:
    operation = _OPERATIONS.get(re.split(r"[/:?]", call.request["url"].partition("?")[0])[-1], "chat")
    model, response, error = find_model(call.request), call.response, call.error
    attributes: dict[str, Any] = {"url": call.request["url"]}
    if model is not None:
        attributes["model"] = model
    if call.is_replayed:
        attributes[SIMULATED] = "replayed"
    if response is not None and (usage := read_usage(response)):
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
        response=None if response is None else _shorten_texts(redact_data(_join_answers([*iter_answers(response)]))),
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
    candidate = get_item(answer, ("candidates", "0", "content", "parts"))
    parts = candidate if isinstance(candidate, list) else []
    places = [*(get_item(part, ("text",)) for part in parts), get_item(answer, ("choices", "0", "delta", "content"))]
    delta = answer.get("delta")
    places.append(delta.get("text") if isinstance(delta, dict) else delta)
    yield from (text for text in places if isinstance(text, str))


def _iter_outermost(by_id: Mapping[str, Span]) -> Iterator[Span]:
    """Yield the model spans that are not part of another model span."""
    for span in by_id.values():
        parent = by_id.get(span.parent_id or "")
        if span.kind is SpanKind.MODEL and (parent is None or parent.kind is not SpanKind.MODEL):
            yield span


def _assign_calls(spans: Sequence[Span], calls: Mapping[int, _Call], opened: float) -> list[list[int]]:
    """Return the calls that each model span of the agent describes: those within it, or else one nearby."""
    assigned: list[list[int]] = [[] for _ in spans]
    unassigned = []
    for number, call in calls.items():
        began = call.began - opened
        distances = [_measure_distance(span, began) for span in spans]
        near = [place for place, distance in enumerate(distances) if distance <= _CLOCK_SKEW]
        if near:  # of spans at the same time, each describes at least one call
            place = min(near, key=lambda place: (distances[place] > 0, len(assigned[place]), distances[place]))
            assigned[place].append(number)
        else:
            unassigned.append(number)
    for span, numbers in zip(spans, assigned, strict=True):
        distance = {number: _measure_distance(span, calls[number].began - opened) for number in unassigned}
        nearest = min(unassigned, key=distance.__getitem__, default=None)
        if not numbers and nearest is not None and distance[nearest] <= _FARTHEST:
            unassigned.remove(nearest)
            numbers.append(nearest)
    return assigned


def _measure_distance(span: Span, when: float) -> float:
    """Return the seconds from a time to a span, 0 within it."""
    start = span.start or 0.0
    return max(start - when, when - (start if span.end is None else span.end), 0.0)


def _mark_replayed(span: Span) -> Span:
    return span.model_copy(update={"attributes": {**span.attributes, SIMULATED: "replayed"}})


def _find_parent(spans: Iterable[Span], when: float) -> Span | None:
    """Return the agent or invocation that ran at a time: of several the one that began last."""
    running = [
        span
        for span in spans
        if span.kind in (SpanKind.AGENT, SpanKind.INVOCATION)
        and span.start is not None
        and span.start - _CLOCK_SKEW <= when <= (when if span.end is None else span.end + _CLOCK_SKEW)
    ]
    return max(running, key=lambda span: span.start or 0.0, default=None)


# The model calls of one attempt at a case.


@dataclass(frozen=True, kw_only=True)
class ModelPlan:
    """The plan for the model calls of a run.

    `replay` is a file with recordings; without it, those of the project are used, and updated in the mode AUTO.
    `record` is the file that gets the calls. `fresh`: nothing is replayed, and the recordings are replaced. `turns`: in
    a chat, only the calls of this many turns are replayed; None: those of all turns. `folder` has the recordings
    instead of the project.
    """

    mode: ModelMode
    prices: Prices
    rules: RequestRules = field(default_factory=RequestRules)
    endpoints: tuple[str, ...] = ()
    replay: Recording | None = None
    record: Path | None = None
    fresh: bool = False
    turns: int | None = None
    folder: Path | None = None


@dataclass
class _Call:
    """A call that was made or replayed. It has no response before it ends."""

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


def _has_ended(call: _Call | RecordedModelCall) -> bool:
    return call.response is not None or call.error is not None


def hash_calls(calls: Iterable[_Call | RecordedModelCall]) -> str:
    """Hash requests and answers in any order. Calls that did not end do not count."""
    ended = ([call.turn, call.request, call.response, call.error] for call in calls if _has_ended(call))
    digests = sorted(hashlib.sha256(json.dumps(call, sort_keys=True).encode()).digest() for call in ended)
    return hashlib.sha256(b"".join(digests)).hexdigest()


_UnusedCalls = dict[tuple[int, str], deque[RecordedModelCall]]
"""Recorded calls that were not replayed yet, by turn and identity."""


class CaseModels:
    """Answers the model calls of one attempt at a case, and records them. See `ModelResponder`.

    The n-th request of a turn gets the answer to the n-th equal one of the recording. In the mode AUTO the models are
    asked from the first request on that differs: later answers may depend on it. Of several recordings, the newest
    answers. If it lacks a request, an older one replaces it that has the request and gave the same answers so far.
    """

    def __init__(
        self,
        plan: ModelPlan,
        job: JobKey,
        read_recordings: Callable[[], Awaitable[Iterable[RecordedModels]]],
        *,
        explain_lack: Callable[[str], str] = lambda _: "nothing is recorded for this case and repeat",
    ) -> None:
        """`read_recordings` returns the newest first. It is called with the first request: many agents ask no model.

        `explain_lack` says what is recorded instead if there is none. It gets the identity of the first request, and
        may block.
        """
        self._plan = plan
        self.job = job
        self._read_recordings = read_recordings
        self._explain_lack = explain_lack
        self._lack = ""
        self._reading = asyncio.Lock()
        self._recording: RecordedModels | None = None
        self._older_recordings: Iterator[RecordedModels] = iter(())
        self._is_older_recording = False  # the recorded calls are not the newest
        self._turn = 0
        self._calls: dict[int, _Call] = {}
        self._uncovered_calls = 0
        self._first_uncovered: RequestDifference | None = None
        self._unused_calls: _UnusedCalls | None = None  # None: not read yet
        self.opened_at = time.perf_counter()
        """When the session of the agent was opened: times of spans are counted from there."""
        self.difference: RequestDifference | None = None
        """Why the models were asked although there is a recording: the first request that differs."""

    @property
    def interception(self) -> Mapping[str, Any]:
        """See `ModelResponder.interception`."""
        endpoints = [*ENDPOINTS.values(), *(make_expression(each) for each in self._plan.endpoints)]
        is_auto = self._plan.mode is ModelMode.AUTO and self._plan.record is None  # a file gets all calls
        return {
            "endpoints": endpoints,
            "own_models": not is_auto or self._plan.turns is not None,
            "optional": is_auto,
            "may_ask": self._plan.mode is not ModelMode.REPLAY,
        }

    def begin_turn(self, turn: int) -> None:
        """See `ModelResponder.begin_turn`."""
        self._turn = turn

    async def answer(self, number: int, request: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """See `ModelResponder.answer`."""
        turn = self._turn
        if request.get("uncovered") is not None or request.get("is_likely"):
            self._allow_uncovered_call(request["url"], request.get("uncovered"))
            return None
        async with self._reading:  # requests are answered in their order
            try:
                if self._unused_calls is None:
                    self._older_recordings = iter(await self._read_recordings())
                    self._unused_calls = await asyncio.to_thread(self._index_newest)
                key = await self._identify(mask_data(request))
                call = _Call(turn, key, redact_data(request))
                if self._may_replay(call) and not self._has_answer(call, self._unused_calls):
                    self._unused_calls = await asyncio.to_thread(self._find_older, call) or self._unused_calls
                if self._recording is None and self._plan.mode is ModelMode.REPLAY and not self._lack:
                    self._lack = await asyncio.to_thread(self._explain_lack, key)
                return self._answer(call, number, self._unused_calls)
            except PatternTooSlow as error:
                message = f"[replay] volatile_texts: {error}"
                raise AgentError(Failure(kind=FailureKind.REPLAY, message=message)) from None

    async def _identify(self, request: Mapping[str, Any]) -> str:
        if not self._plan.rules.volatile_texts:
            return self._plan.rules.identify(request)
        return await asyncio.to_thread(self._plan.rules.identify, request)  # expressions of the user may be slow

    def _allow_uncovered_call(self, url: str, library: str | None) -> None:
        """Allow a call that cannot be recorded or replayed, because of its library or address. Raises AgentError."""
        number = len(self._calls) + self._uncovered_calls + 1
        short_url, difference = shorten(redact(url), 120), RequestDifference(call=number, turn=self._turn)
        if library is not None:
            difference = difference.model_copy(update={"uncovered": f"{library} ({short_url})"})
            advice = 'use httpx, requests or aiohttp (for Google clients: transport="rest")'
        else:
            difference = difference.model_copy(update={"unnamed": short_url})
            advice = f'add "{urlsplit(url).netloc}" to [replay] endpoints in workbench.toml'
        if self._plan.mode is ModelMode.REPLAY:
            message = f"{difference}; {advice}, or run with --models live"
            raise AgentError(Failure(kind=FailureKind.REPLAY, message=message))
        self._uncovered_calls += 1
        self._first_uncovered = self._first_uncovered or difference

    def _index_newest(self) -> _UnusedCalls:
        self._recording = next(self._older_recordings, None)
        return {} if self._recording is None else self._index(self._recording)

    def _index(self, recorded: RecordedModels) -> _UnusedCalls:
        """Return recorded calls by turn and identity."""
        unused: _UnusedCalls = {}
        for call in recorded.calls:
            unused.setdefault((call.turn, _identify_recorded(call, self._plan.rules)), deque()).append(call)
        return unused

    def _find_older(self, call: _Call) -> _UnusedCalls | None:
        """Continue with the next older recording that answers a request, and gave the same answers so far.

        Return its unused calls; None if there is no such recording.
        """
        for recorded in self._older_recordings:
            unused = self._index(recorded)
            replayed = [(each, self._take(each, unused)) for each in self._calls.values() if each.is_replayed]
            is_same = all(older is not None and older.response == each.response for each, older in replayed)
            if is_same and self._has_answer(call, unused):
                self._recording, self._is_older_recording = recorded, True
                return unused
        return None

    def _may_replay(self, call: _Call) -> bool:
        """Return True unless the models are asked anyway."""
        is_live = self._plan.turns is not None and call.turn >= self._plan.turns
        return self._plan.mode is not ModelMode.LIVE and self.difference is None and not is_live

    def _has_answer(self, call: _Call, unused: _UnusedCalls) -> bool:
        return any(map(self._can_replay, unused.get((call.turn, call.key), ())))

    def _answer(self, call: _Call, number: int, unused: _UnusedCalls) -> Mapping[str, Any] | None:
        self._calls[number] = call
        if not self._may_replay(call):
            return None
        recorded_call = self._take(call, unused)
        if recorded_call is not None and self._can_replay(recorded_call):
            call.response, call.seconds, call.cost = recorded_call.response, recorded_call.seconds, recorded_call.cost
            call.is_replayed = call.is_whole = True
            return recorded_call.response
        difference = None if self._recording is None else self._find_difference(call, unused, equal=recorded_call)
        if self._plan.mode is ModelMode.REPLAY:
            message = f"model call {len(self._calls)}: {self._lack}" if difference is None else self._advise(difference)
            del self._calls[number]  # it is not made
            raise AgentError(Failure(kind=FailureKind.REPLAY, message=message))
        if not self._is_unrecorded_model(call.request):
            self.difference = difference
        return None

    def _advise(self, difference: RequestDifference) -> str:
        """Return what differs, and what to do if that is right."""
        if difference.hint is not None:
            return str(difference)
        advice = "record it again with --record" if self._plan.replay is not None else "run with --models auto"
        return f"{difference}; if that is right, {advice}"

    def _is_unrecorded_model(self, request: Mapping[str, Any]) -> bool:
        """Return True for a model of the agent's own code, if the recording was made without these."""
        recorded = () if self._recording is None else self._recording.calls
        may_lack_some = self._plan.turns is not None or self._plan.record is not None
        is_of_framework = may_lack_some and request["url"].startswith("adk:")
        return is_of_framework and all(call.request["url"] != request["url"] for call in recorded)

    def record_outcome(self, number: int, outcome: Mapping[str, Any]) -> None:
        """See `ModelResponder.record_outcome`."""
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
            unassigned = {number: call for number, call in self._calls.items() if call.turn == turn}
            by_id = {span.id: span for span in reported if span.turn == turn}
            outermost = list(_iter_outermost(by_id))
            for span, numbers in zip(outermost, _assign_calls(outermost, unassigned, self.opened_at), strict=True):
                calls = [unassigned.pop(number) for number in numbers]
                if calls and all(call.is_replayed for call in calls):
                    marked.add((turn, span.id))
            for number, call in unassigned.items():
                parent = _find_parent(by_id.values(), call.began - self.opened_at)
                added.append(_make_span(call, number=number, parent=parent, opened=self.opened_at))
        spans = (_mark_replayed(span) if (span.turn, span.id) in marked else span for span in reported)
        return (*spans, *added)

    @property
    def counts(self) -> ModelCalls:
        """How many calls were made and replayed, and the time that replaying saved."""
        replayed = [call for call in self._calls.values() if call.is_replayed]
        return ModelCalls(
            live=len(self._calls) - len(replayed) + self._uncovered_calls,
            replayed=len(replayed),
            saved_seconds=sum(call.seconds for call in replayed),
            saved_cost=add_costs(*(call.cost for call in replayed)),
            difference=self.difference or self._first_uncovered,
        )

    def identify_recording(self) -> str | None:
        """Return `ModelCalls.recording`; None if no model was called."""
        if not self._calls:
            return None
        if self._recording is not None and all(call.is_replayed for call in self._calls.values()):
            return hash_calls(self._recording.calls)  # it may have more calls
        return hash_calls(self._calls.values())

    def count_live_calls(self, turn: int) -> int:
        """Return how many calls of a turn were made."""
        return sum(call.turn == turn and not call.is_replayed for call in self._calls.values())

    @property
    def is_used(self) -> bool:
        """True if the agent has sent a request, even if it was refused."""
        return self._unused_calls is not None or self._uncovered_calls > 0

    @property
    def call_count(self) -> int:
        """How many calls a recording may have."""
        return len(self._calls)

    @property
    def is_worth_storing(self) -> bool:
        """True if the calls are not those of the newest recording, and every request got a whole answer."""
        is_new = self._is_older_recording or any(not call.is_replayed for call in self._calls.values())
        return is_new and self.is_complete

    @property
    def name(self) -> str:
        """The name of the requests: equal for recordings of which one replaces the other."""
        requests = sorted([call.turn, call.key] for call in self._calls.values())
        return hashlib.sha256(json.dumps(requests).encode()).hexdigest()

    def is_part_of(self, recorded: RecordedModels) -> bool:
        """Return True if a recording has all requests and more."""
        own_requests = Counter((call.turn, call.key) for call in self._calls.values())
        recorded_requests = Counter((call.turn, _identify_recorded(call, self._plan.rules)) for call in recorded.calls)
        return own_requests < recorded_requests

    @property
    def is_complete(self) -> bool:
        """True if every request got a whole answer, if need be after failed tries."""
        return self._check_answers(allows_fallback=False)

    @property
    def is_repeatable(self) -> bool:
        """True if the mode REPLAY repeats the calls; after an error status the agent may have asked another model."""
        return self._check_answers(allows_fallback=True)

    def _check_answers(self, *, allows_fallback: bool) -> bool:
        answered: set[tuple[int, str | None]] = set()  # requests by turn; with None: any of a turn
        for _, call in sorted(self._calls.items(), reverse=True):
            request, any_request = (call.turn, call.key), (call.turn, None)
            has_failed = call.error is not None or is_failure(call.response)
            if call.is_whole and not has_failed:
                answered |= {request, any_request}
            elif allows_fallback and call.error is None and any_request in answered:
                continue
            elif not has_failed or request not in answered:
                return False
        return True

    def build_recording(self, prices: Prices | None) -> RecordedModels:
        """Return all calls that ended, for a recording. The first price imports a library; None: without costs."""
        for call in self._calls.values():
            if prices is not None and not call.is_replayed and call.response is not None:
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
            if _has_ended(call)
        ]
        return RecordedCalls(CallKind.MODELS, self.job, tuple(calls))

    def _take(self, call: _Call, unused: _UnusedCalls) -> RecordedModelCall | None:
        """Take the next recorded call that equals a request, if possible one that can be replayed."""
        equal_calls, recorded_call = unused.get((call.turn, call.key)), None
        while equal_calls:
            recorded_call = equal_calls.popleft()
            has_failed = self._plan.mode is ModelMode.AUTO and is_failure(recorded_call.response)
            if self._can_replay(recorded_call) and not (has_failed and equal_calls):
                break
        return recorded_call

    def _can_replay(self, recorded: RecordedModelCall) -> bool:
        """Return True if there is an answer. In the mode AUTO, only a chat replays a failure such as an outage."""
        may_have_failed = self._plan.mode is ModelMode.REPLAY or self._plan.turns is not None
        return recorded.response is not None and (may_have_failed or not is_failure(recorded.response))

    def _find_difference(
        self, call: _Call, unused: _UnusedCalls, *, equal: RecordedModelCall | None
    ) -> RequestDifference:
        """Compare a request with the nearest recorded one of its turn. `equal` is a call that cannot be replayed."""
        difference = RequestDifference(call=len(self._calls), turn=call.turn)
        if equal is not None:
            error = equal.error or f"HTTP {(equal.response or {}).get('status')}"
            return difference.model_copy(update={"error": shorten(error, _MOST_STORED)})
        recorded_calls = [each for (turn, _), calls in unused.items() if turn == call.turn for each in calls]
        rules = self._plan.rules
        current_request = rules.simplify(call.request)
        differences = [find_differences(rules.simplify(each.request), current_request) for each in recorded_calls]
        nearest = min(filter(None, differences), key=len, default=None)
        if nearest is None:
            return difference
        first = nearest[0]
        before, after = (None if text is None else shorten(text, _MOST_STORED) for text in (first.before, first.now))
        texts = {"before": before, "now": after, "is_json": first.is_json}
        return difference.model_copy(update={"what": first.what, **texts, "hint": first.hint})


def _identify_recorded(call: RecordedModelCall, rules: RequestRules) -> str:
    return call.key or rules.identify(call.request)


_MOST_STORED = 2_000
"""Characters of each text of a difference that are stored with a result."""


def _redact_response(response: Mapping[str, Any]) -> dict[str, Any]:
    """Hide known secrets. One that begins in one chunk of the answer and ends in another joins the chunks.

    Texts that only look like secrets stay: the agent must get the answer that the model gave.
    """
    redacted: dict[str, Any] = mask_data(dict(response))
    chunks = response.get("chunks", ())
    texts = [text for _, text in chunks if isinstance(text, str)]
    joined = "".join(texts)
    if len(texts) == len(chunks) > 1 and (masked := mask_secrets(joined)) != joined:
        redacted["chunks"] = [[chunks[-1][0], masked]]
    return redacted


class _RecordedFile:
    """Explains which calls a file has instead of those of a case. Any thread may use it."""

    def __init__(self, recording: Recording, rules: RequestRules) -> None:
        self._recording = recording
        self._rules = rules

    @cached_property
    def targets(self) -> Set[str]:
        """The agents whose model calls the file has."""
        jobs = (block.job for block in self._recording.blocks if block.part is CallKind.MODELS)
        return {job.case.target for job in jobs if job is not None}

    @cached_property
    def _first_requests(self) -> Mapping[str, BlockName]:
        """The recorded cases by the identity of their first request."""
        blocks_by_request: dict[str, BlockName] = {}
        for block in self._recording.blocks:
            if block.part is CallKind.MODELS and block.job is not None:
                call = self._recording.read_first_call(block, RecordedModelCall)
                if call is not None:
                    blocks_by_request.setdefault(_identify_recorded(call, self._rules), block)
        return blocks_by_request

    def explain_lack(self, job: JobKey, first_request: str) -> str:
        """Return what the file has instead of a repeat: other repeats, another agent, or a case of another name."""
        name, case = shown_path(self._recording.path), job.case
        blocks = [each for each in self._recording.blocks if each.part is CallKind.MODELS]
        recorded = [each.job.case for each in blocks if each.job is not None]
        if case in recorded:
            lack = f"calls of this case, but none of repeat {job.repeat + 1}"
            return f"{name} has {lack}; record so many with --record and --runs {job.repeat + 1}"
        agents = {each.target for each in recorded if (each.eval_set, each.eval_id) == (case.eval_set, case.eval_id)}
        if agents:
            lack = f"calls of this case by {', '.join(sorted(agents))}, but none by {case.target}"
            return f"{name} has {lack}; record it again with --record"
        shown = shorten(repr(case.eval_id), _MOST_NAMED)
        lack = f"{name} has no calls of the case {shown} of {case.eval_set}"
        renamed = self._first_requests.get(first_request)
        if renamed is None or renamed.job is None:
            return f"{lack}; record it with --record"
        return f"{lack}; {self._propose_name(renamed, renamed.job.case, case)}, or record it again with --record"

    def _propose_name(self, block: BlockName, recorded: CaseKey, case: CaseKey) -> str:
        """Return what to change in the file if a case that begins with the same request is the same case."""
        parts = ((name, getattr(recorded, name), getattr(case, name)) for name in ("target", "eval_set", "eval_id"))
        changed = [(name, before, now) for name, before, now in parts if before != now]
        recorded_names = ", ".join(f"{name} {shorten(repr(before), _MOST_NAMED)}" for name, before, _ in changed)
        changes = ", ".join(f"{name} to {shorten(repr(now), _MOST_NAMED)}" for name, _, now in changed)
        line = self._recording.find_line(block)
        place = "there" if line is None else f"in line {line}"
        return f"its first request is recorded as {recorded_names}: if that is the same case, change {changes} {place}"


_MOST_NAMED = 100
"""Characters of a name in a message."""


def _list_jobs(path: Path) -> Set[JobKey | None]:
    """List the repeats whose model calls a file has, if there is one."""
    blocks = Recording(path).blocks if path.exists() else ()
    return {each.job for each in blocks if each.part is CallKind.MODELS}


# The recordings of one run.


def _comes_from_agent(failure: Failure | None) -> bool:
    """True if an attempt ended with an answer or with an error of the agent, which another try would repeat."""
    return failure is None or failure.kind is FailureKind.AGENT


class RunModels:
    """Opens and stores the recordings of the cases of one run. Used on the engine's loop."""

    def __init__(self, plan: ModelPlan, root: Path, *, warn: Callable[[str], None]) -> None:
        """`root` is the project. `warn` gets what is wrong with a recording that is not needed."""
        self._writing: dict[JobKey, asyncio.Task[None]] = {}
        self._plan = plan
        self._root = plan.folder or root
        self._warn = warn
        self._store: RecordingStore | None = None
        self._file = None if plan.replay is None else _RecordedFile(plan.replay, plan.rules)
        self._jobs_in_file: Set[JobKey | None] | None = None  # in the file; None: not read yet
        self._recorded_jobs: set[JobKey] = set()  # by this run
        self._unrecorded_jobs: set[JobKey] = set()  # which the file should get
        self._opening = asyncio.Lock()
        self.counts = ModelCalls()
        """The calls of all attempts so far."""
        self._calling_targets: set[str] = set()  # targets whose agents called models
        self._silent_targets: set[str] = set()  # targets with a case that ended well without a model call

    @property
    def is_strict(self) -> bool:
        """True if a file gets or answers all calls."""
        return self._plan.record is not None or self._plan.mode is ModelMode.REPLAY

    def is_silent(self, target: str) -> bool:
        """Return True if an agent has ended a case, and no model call of it was seen."""
        return target in self._silent_targets - self._calling_targets

    def has_calls(self, target: str) -> bool:
        """Return True if the file that is replayed has calls of an agent; also without such a file."""
        return self._file is None or target in self._file.targets

    def open(self, job: JobKey) -> CaseModels:
        """Return what answers the calls of a repeat."""

        async def read() -> Iterable[RecordedModels]:
            try:
                return await self._read(job)
            except StoreError as error:
                raise AgentError(Failure(kind=FailureKind.REPLAY, message=str(error))) from None

        if self._file is None:
            return CaseModels(self._plan, job, read)
        return CaseModels(self._plan, job, read, explain_lack=partial(self._file.explain_lack, job))

    def keep(self, models: CaseModels, failure: Failure | None) -> None:
        """Count the calls of an attempt, and write them if they are the whole conversation.

        They are written in the background: a verdict does not wait for it.
        """
        self.counts = self.counts.add(models.counts)
        if models.is_used:
            self._calling_targets.add(models.job.case.target)
        elif failure is None:
            self._silent_targets.add(models.job.case.target)
        write = self._write(models, failure, self._writing.get(models.job))
        task = self._writing[models.job] = asyncio.get_running_loop().create_task(write)
        task.add_done_callback(lambda task: self._forget_task(models.job, task))

    def _forget_task(self, job: JobKey, task: asyncio.Task[None]) -> None:
        if self._writing.get(job) is task:
            del self._writing[job]

    async def _write(
        self, models: CaseModels, failure: Failure | None, previous_write: asyncio.Task[None] | None
    ) -> None:
        """Write the calls of an attempt after those of the one before, which they replace."""
        if previous_write is not None:
            await asyncio.wait([previous_write])
        try:
            is_recorded, is_stored = await self._may_record(models, failure), await self._may_store(models, failure)
            if not (is_recorded or is_stored):
                return
            recording = await asyncio.to_thread(models.build_recording, self._plan.prices)
            if is_recorded and self._plan.record is not None:
                await asyncio.to_thread(add_recording, self._plan.record, recording)
                self._recorded_jobs.add(models.job)
            if is_stored:
                store = await self._open_store()
                await asyncio.to_thread(store.write, models.job, recording, name=models.name)
        except StoreError as error:
            self._warn(f"model calls are not recorded: {error}")
        except Exception as error:  # a bug of workbench must not end the run
            self._warn(f"model calls are not recorded because workbench itself failed: {error!r}")

    async def _may_record(self, models: CaseModels, failure: Failure | None) -> bool:
        """Return True if the file gets the calls: those of an error or a fallback replace no others."""
        if self._plan.record is None or (failure is None and models.call_count == 0):
            return False
        is_allowed = failure is None and models.is_complete
        if not is_allowed and _comes_from_agent(failure) and models.call_count and models.is_repeatable:
            is_allowed = models.job not in self._recorded_jobs and models.job not in await self._list_earlier(
                self._plan.record
            )
        (self._unrecorded_jobs.discard if is_allowed else self._unrecorded_jobs.add)(models.job)
        return is_allowed

    async def _may_store(self, models: CaseModels, failure: Failure | None) -> bool:
        """Return True if the store gets the calls: those before an error hide no recording that has more."""
        if self._plan.replay is not None or not models.is_worth_storing or not _comes_from_agent(failure):
            return False
        if failure is None:
            return True
        store = await self._open_store()
        return not await asyncio.to_thread(lambda: any(map(models.is_part_of, store.read(models.job))))

    async def _list_earlier(self, path: Path) -> Set[JobKey | None]:
        """Return the repeats whose calls the file had when this was first called."""
        async with self._opening:
            if self._jobs_in_file is None:
                self._jobs_in_file = await asyncio.to_thread(_list_jobs, path)
            return self._jobs_in_file

    async def close(self) -> None:
        """Wait for what is being written, close the store, and report the cases that are not recorded."""
        await asyncio.gather(*self._writing.values())
        if self._store is not None:
            await asyncio.to_thread(self._store.close)
        if self._unrecorded_jobs and self._plan.record is not None:
            cases = pluralise(len({job.case for job in self._unrecorded_jobs}), "case")
            self._warn(
                f"model calls of {cases} are not recorded, because the case ended in an error or a model gave no answer"
                f"; {shown_path(self._plan.record)} keeps earlier ones"
            )

    async def _read(self, job: JobKey) -> Iterable[RecordedModels]:
        if job in self._writing:  # it runs again
            await asyncio.shield(self._writing[job])  # a case that is cancelled does not stop it
        if self._plan.mode is ModelMode.LIVE or self._plan.fresh:
            return ()
        if self._plan.replay is not None:
            recording = await asyncio.to_thread(self._plan.replay.read, CallKind.MODELS, job, RecordedModelCall)
            return () if recording is None else (recording,)
        try:
            store = await self._open_store()
            return await asyncio.to_thread(store.read, job)
        except StoreError as error:
            if self._plan.mode is ModelMode.REPLAY:
                raise
            self._warn(f"recorded model calls cannot be read: {error}")
            return ()

    async def _open_store(self) -> RecordingStore:
        async with self._opening:
            if self._store is None:
                self._store = await asyncio.to_thread(RecordingStore, self._root)
            return self._store
