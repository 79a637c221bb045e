"""Requests recorded, replayed, and answered by scripts."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections import deque
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from pydantic import model_validator

from workbench.llm.model_types import Ask, ModelError, ModelReply, ModelRequest, Trouble
from workbench.model.facts import Fact
from workbench.model.identity import JobKey
from workbench.model.patterns import Pattern, PatternError, PatternTooSlow
from workbench.store.errors import StoreError, make_os_error, os_errors, shown_path
from workbench.store.model_answers import CallKind, RecordedCalls, Recording, add_recording, sort_recording

if TYPE_CHECKING:
    import regex


# Recording and replay of requests, for runs without a key and without a network.


class RecordedRequest(Fact):
    """A request, and its reply or its error."""

    request: ModelRequest
    reply: ModelReply | None = None
    trouble: Trouble | None = None
    message: str = ""

    @model_validator(mode="after")
    def _check_outcome(self) -> Self:
        if (self.reply is None) == (self.trouble is None):
            raise ValueError("expected exactly one of reply and trouble")
        return self


@dataclass
class CaseRequests:
    """The requests for one repeat of a case so far, in the order of their start. None: the request has not ended."""

    job: JobKey | None
    calls: list[RecordedRequest | None] = field(default_factory=list)


case_requests: ContextVar[CaseRequests | None] = ContextVar("case_requests", default=None)
"""The case that models are asked for in this context: recorded requests belong to it."""


class RequestRecording:
    """Adds requests with their replies or errors to a recording. Calls of other cases stay in the file."""

    def __init__(self, path: Path) -> None:
        """Raise StoreError if the file cannot be written or is no recording."""
        self._path = path
        self._without_case = CaseRequests(None)
        self._recorded_calls: dict[JobKey | None, tuple[RecordedRequest, ...]] = {}
        recording = Recording(path) if path.exists() else None
        for name in () if recording is None else recording.blocks:
            with contextlib.suppress(StoreError):  # a block that is cut off: recording its case again replaces it
                if recording is not None and (found := recording.read(CallKind.JUDGES, name.job, RecordedRequest)):
                    self._recorded_calls[name.job] = found.calls
        with os_errors("write", path):
            path.open("a").close()

    def wrap(self, ask: Ask) -> Ask:
        """Return `ask` with recording. Replies from the cache are recorded too: a replay has no cache."""

        async def ask_and_record(request: ModelRequest) -> ModelReply:
            calls = (case_requests.get() or self._without_case).calls
            place = len(calls)
            calls.append(None)
            try:
                reply = await ask(request)
            except ModelError as error:
                if not error.trouble.is_unasked:
                    calls[place] = RecordedRequest(request=request, trouble=error.trouble, message=error.message)
                raise
            calls[place] = RecordedRequest(request=request, reply=reply)
            return reply

        return ask_and_record

    async def keep(self, requests: CaseRequests, *, replaces: bool = False) -> None:
        """Write the requests for a repeat that has ended. Raises StoreError.

        An earlier call of the same request is replaced by a new reply, but not by an error. Calls of other requests
        stay, unless it `replaces` them.
        """
        new_calls = [call for call in requests.calls if call is not None]
        if not new_calls:
            return
        job, earlier = requests.job, self._recorded_calls.get(requests.job, ())
        replied_keys = {call.request.key for call in new_calls if call.reply is not None}
        failed_keys = {call.request.key for call in new_calls} - replied_keys
        retained_calls = [
            call
            for call in earlier
            if call.request.key not in replied_keys and (not replaces or call.request.key in failed_keys)
        ]
        known_keys = {call.request.key for call in retained_calls if call.reply is not None}
        calls = (
            *retained_calls,
            *(call for call in new_calls if call.reply is not None or call.request.key not in known_keys),
        )
        await self._write(job, calls)
        if job is not None and None in self._recorded_calls:  # an earlier version did not name the case
            remaining_calls = tuple(call for call in self._recorded_calls[None] if call.request.key not in replied_keys)
            if len(remaining_calls) < len(self._recorded_calls[None]):
                await self._write(None, remaining_calls)

    async def _write(self, job: JobKey | None, calls: tuple[RecordedRequest, ...]) -> None:
        self._recorded_calls[job] = calls
        await asyncio.to_thread(add_recording, self._path, RecordedCalls(CallKind.JUDGES, job, calls))

    async def close(self) -> None:
        """Write the requests that belong to no case, and sort the file. Raises StoreError."""
        await self.keep(self._without_case)
        await asyncio.to_thread(sort_recording, self._path)


class RequestReplay:
    """Answers from a recording and asks no model. The calls of the same case come first, then those of others."""

    def __init__(self, path: Path) -> None:
        """Raise StoreError if the file cannot be read."""
        self._path = path
        self._calls: dict[tuple[JobKey | None, str], deque[RecordedRequest]] = {}
        self._calls_of_any_case: dict[str, RecordedRequest] = {}
        for block in Recording(path).iter_part(CallKind.JUDGES, RecordedRequest):
            for call in block.calls:
                self._calls.setdefault((block.job, call.request.key), deque()).append(call)
                self._calls_of_any_case.setdefault(call.request.key, call)

    async def ask(self, request: ModelRequest) -> ModelReply:
        """Return the recorded reply. Raise ModelError if an error was recorded or nothing was."""
        call = self._find(request.key)
        if call is None:
            name = shown_path(self._path)
            raise ModelError(
                Trouble.NOT_RECORDED,
                f"{name} has no answer of {request.model} to this request, which changed since the recording; "
                f"record it again (--record {name}; in pytest --workbench-record)",
            )
        if call.trouble is not None:
            raise ModelError(call.trouble, call.message)
        assert call.reply is not None
        return call.reply.model_copy(update={"cached": True})

    def _find(self, key: str) -> RecordedRequest | None:
        current_case = case_requests.get()
        for job in dict.fromkeys((None if current_case is None else current_case.job, None)):
            if calls := self._calls.get((job, key)):
                return calls[0] if len(calls) == 1 else calls.popleft()  # the last reply is repeated
        return self._calls_of_any_case.get(key)


# Scripted replies, for samples without a key and tests without a network.

_FLAGS = re.IGNORECASE | re.DOTALL | re.MULTILINE
_RULE_KEYS = frozenset({"for", "when", "reply", "note"})


@dataclass(frozen=True)
class _Rule:
    purpose: str
    when: Sequence[Pattern]
    reply: Any

    def match(self, request: ModelRequest, prompt: str) -> regex.Match[str] | bool:
        """Match a request. Return the match of the last expression, True without expressions. Raises PatternTooSlow."""
        exact = not self.purpose.endswith("*")
        if self.purpose != request.purpose if exact else not request.purpose.startswith(self.purpose[:-1]):
            return False
        last_match: regex.Match[str] | bool = True
        for pattern in self.when:
            pattern_match = pattern.search(prompt)
            if pattern_match is None:
                return False
            last_match = pattern_match
        return last_match


class Script:
    """A provider that answers by the rules of a script. Scripts with equal path and text are equal."""

    def __init__(self, path: Path, text: str, rules: Sequence[_Rule]) -> None:
        self._path = path
        self._text = text
        self._rules = rules

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Script) and (self._path, self._text) == (other._path, other._text)

    def __hash__(self) -> int:
        return hash(self._text)

    async def prepare(self, model: str) -> None:
        """See Provider."""
        del model  # no model is asked

    async def ask(self, request: ModelRequest) -> ModelReply:
        """See Provider."""
        return await asyncio.to_thread(self._answer, request)  # expressions of the user may be slow

    def _answer(self, request: ModelRequest) -> ModelReply:
        prompt = "\n".join([*([request.system] if request.system else []), *(m.text for m in request.messages)])
        for rule in self._rules:
            try:
                match = rule.match(request, prompt)
            except PatternTooSlow as error:
                raise ModelError(Trouble.NOT_RECORDED, f"the script {self._path.name}: {error}") from error
            if match is not False:
                return self._build_reply(rule, request, match)
        message = f"the script {self._path.name} has no rule that fits this request of {request.purpose!r}"
        raise ModelError(Trouble.NOT_RECORDED, message)

    def _build_reply(self, rule: _Rule, request: ModelRequest, match: regex.Match[str] | bool) -> ModelReply:
        import regex

        try:
            reply = _expand_reply(rule.reply, None if isinstance(match, bool) else match)
        except (regex.error, IndexError) as error:
            message = f"the script {self._path.name}: a reply for {request.purpose!r} cannot be rendered: {error}"
            raise ModelError(Trouble.NOT_RECORDED, message) from error
        text = reply if isinstance(reply, str) else json.dumps(reply, ensure_ascii=False)
        return ModelReply(text=text, finish="STOP", version="script", scripted=True)

    async def close(self) -> None:
        """See Provider."""


def read_script(path: Path) -> Script:
    """Read a script. Raises StoreError with the place of the error."""
    try:
        text = path.read_text(encoding="utf-8")
        data = json.loads(text)
    except OSError as error:
        raise make_os_error("read", path, error) from error
    except ValueError as error:
        raise StoreError(path, f"is not JSON in UTF-8, expected a script of rules: {error}") from error
    rules = data.get("rules") if isinstance(data, Mapping) else None
    if not isinstance(rules, list):
        raise StoreError(
            path, 'found no list of rules, expected {"rules": [{"for": ..., "when": [...], "reply": ...}]}'
        )
    return Script(path, text, [_read_rule(path, number, rule) for number, rule in enumerate(rules)])


def _read_rule(path: Path, number: int, rule: Any) -> _Rule:
    place = f"rules[{number}]"
    if not isinstance(rule, Mapping) or "reply" not in rule:
        raise StoreError(path, f"{place}: expected an object with a reply")
    if unknown := sorted(set(rule) - _RULE_KEYS):
        raise StoreError(
            path, f"{place}: found the unknown key {unknown[0]!r}, expected {', '.join(sorted(_RULE_KEYS))}"
        )
    purpose, when = rule.get("for", "*"), rule.get("when", [])
    if not isinstance(purpose, str) or not isinstance(when, list):
        raise StoreError(path, f'{place}: expected a text as "for" and a list of expressions as "when"')
    if not all(isinstance(text, str) for text in when):
        raise StoreError(path, f"{place}.when: expected a list of regular expressions")
    try:
        patterns = [Pattern(text, flags=_FLAGS) for text in when]
    except PatternError as error:
        raise StoreError(path, f"{place}.when: expected a regular expression ({error})") from error
    return _Rule(purpose, patterns, rule["reply"])


def _expand_reply(reply: Any, match: regex.Match[str] | None) -> Any:
    if isinstance(reply, str):
        return reply if match is None else match.expand(reply)
    if isinstance(reply, Mapping):
        return {key: _expand_reply(value, match) for key, value in reply.items()}
    if isinstance(reply, list):
        return [_expand_reply(value, match) for value in reply]
    return reply
