"""Answers that a model makes up in place of a tool, from its declaration and what has happened in the case so far."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any

from workbench.agents.host import AgentError, ToolCall
from workbench.llm.requests import Ask, Message, ModelReply, ModelRequest, ask_for_readable
from workbench.llm.trouble import ModelError
from workbench.metrics.judges.replies import json_objects
from workbench.model.environment import Environment
from workbench.model.results import Failure, FailureKind
from workbench.model.text import one_line
from workbench.simulation.tools.prompts import PROMPTS

PURPOSE = "tool"
"""What scripts call the requests for answers of tools."""

_TRIES = 3  # replies that cannot be read: another sample may be better


class ModelTools:
    """The tools of one case that a model answers for. `repeat` keeps the opinions of repeats apart."""

    def __init__(self, environment: Environment, *, ask: Ask, repeat: int) -> None:
        self._environment = environment
        self._ask = ask
        self._repeat = repeat

    async def answer(self, call: ToolCall, earlier: Sequence[Mapping[str, Any]]) -> Any:
        """What the tool gives back; `earlier` is what happened before. Raises AgentError: never the agent's fault."""
        # Off the loop: the first one imports the templates' library.
        prompt = await asyncio.to_thread(self._prompt, call, earlier)
        said = ""
        for number in range(_TRIES):
            reply = await self._reply(call, prompt, sample=self._repeat * _TRIES + number)
            found = list(json_objects(reply.text))
            if found:  # some models leave the frame out
                return next((each["answer"] for each in found if "answer" in each), found[0])
            said = reply.text
            if reply.is_cut_off:
                said = f"{said} (cut off: raise max_output_tokens)"
        message = (
            f"{call.tool}: the model that answers for it gave no JSON in {_TRIES} tries: {one_line(said, width=120)}"
        )
        raise AgentError(Failure(kind=FailureKind.TOOL, message=message))

    async def _reply(self, call: ToolCall, prompt: str, *, sample: int) -> ModelReply:
        request = ModelRequest(
            model=self._environment.model,
            messages=(Message(role="user", text=prompt),),
            config=dict(self._environment.configuration),
            sample=sample,
            purpose=PURPOSE,
        )
        try:
            return await ask_for_readable(self._ask, request, lambda text: any(json_objects(text)))
        except ModelError as error:
            kind = FailureKind.INFRASTRUCTURE if error.trouble.is_outage else FailureKind.TOOL
            message = f"{call.tool}: the model that answers for it did not: {error.message}"
            raise AgentError(Failure(kind=kind, message=message)) from error

    def _prompt(self, call: ToolCall, earlier: Sequence[Mapping[str, Any]]) -> str:
        return PROMPTS.render(
            "tool_answer",
            declaration=_json(call.declaration),
            environment=self._environment.data,
            tracing=self._environment.tracing,
            earlier=[_json(each) for each in earlier],
            call=_json({"tool": call.tool, "args": call.args}),
        )


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
