"""What the cases of a set have in common, and the hashes by which a stored result is known to be of the same case."""

from __future__ import annotations

import hashlib
import marshal
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from workbench.engine.criteria import judge_models_of
from workbench.engine.plan import PlannedCase
from workbench.engine.users import is_scripted, options_of
from workbench.metrics.judges import prompts
from workbench.model.criteria import EvalConfig
from workbench.model.evalset import EvalCase
from workbench.model.keys import CaseKey
from workbench.model.remade import Recipe
from workbench.model.results import Execution, Failure
from workbench.model.target import Target
from workbench.simulation.prompts import PROMPTS
from workbench.simulation.tools.plan import ToolPlan
from workbench.store.datasets import RecordedCase

_to_json = EvalCase.__pydantic_serializer__.to_json
_execution_to_json = Execution.__pydantic_serializer__.to_json


@dataclass(frozen=True)
class SetContext:
    """What the cases of one set have in common, with the hashes of it taken once."""

    eval_set_id: str
    target: Target
    config: EvalConfig
    tools: ToolPlan | None = None

    @cached_property
    def _target_hash(self) -> str:
        # What is not set leaves the hash what it was before it could be.
        unset = {name for name in ("options", "sub_agent") if not getattr(self.target, name)}
        no_matter = {*_CHANGES_NO_ANSWER, *unset}
        return _hash(self.target.model_dump_json(exclude=no_matter))

    @cached_property
    def _user_hash(self) -> str:
        """Of what plays the users of scenarios."""
        options = options_of(self.config)
        return _hash(repr(options), PROMPTS.version, repr(is_scripted(self.target, options.model)))

    @cached_property
    def _config_hash(self) -> str:
        no_matter = {"source", "user_simulator_config", "user_model"}
        if (
            not self.config.judge_metrics
        ):  # what is not there leaves the hashes what they were before there could be any
            no_matter.add("judge_metrics")
        if not self.config.judge:
            return _hash(self.config.model_dump_json(exclude={*no_matter, "judge", "quorum"}))
        scripted = repr(any(is_scripted(self.target, model) for model in judge_models_of(self.config)))
        return _hash(self.config.model_dump_json(exclude=no_matter), prompts.version(), scripted)

    @property
    def hashes(self) -> tuple[str, str]:
        """What tells the target, its tools and the criteria apart from any others that could change a verdict."""
        nowhere = CaseKey(target=self.target.name, eval_set="", eval_id="")
        tools = "" if self.tools is None else self.tools.digest(nowhere)
        return _hash(self._target_hash, self._user_hash, tools), self._config_hash

    def plan(
        self,
        key: CaseKey,
        case: EvalCase | None,
        *,
        problem: Failure | None = None,
        remake: Recipe[EvalCase] | None = None,
    ) -> PlannedCase:
        """A planned case, with the hashes by which a stored result is known to be of the same case.

        A case with a fixed conversation is not held where `remake` makes it anew.
        """
        held: EvalCase | Recipe[EvalCase | None] | None = case
        if remake is not None and case is not None and case.conversation_scenario is None:
            held = remake
        return PlannedCase(
            key=key,
            eval_set_id=self.eval_set_id,
            target=self.target,
            config=self.config,
            case=held,
            problem=problem,
            tools=self.tools,
            execution_hash="" if case is None else self._execution_hash(key, case),
            scoring_hash="" if case is None else _hash(self._config_hash, _to_json(case, exclude=_IS_NO_MATTER)),
        )

    def _execution_hash(self, key: CaseKey, case: EvalCase) -> str:
        parts: list[str | bytes] = [self._target_hash, _to_json(case, include=_REACHES_AGENT)]
        if case.conversation_scenario is not None:
            parts.append(self._user_hash)
        # What tools answer is there only where something else than the tools does: older verdicts stay what they are.
        if self.tools is not None and (digest := self.tools.digest(key)):
            parts.append(digest)
        return f"{self._target_hash[:_TARGET_PART]}-{_hash(*parts)}"  # so that it can be told which of the two changed

    def hashes_of_recorded(self, recorded: RecordedCase) -> tuple[str, str]:
        """The same two hashes for what was recorded: of all that is judged, and of that with the criteria.

        No agent runs, so that nothing is won by telling what was said from what was expected; and rows in which the
        same was said, which may be many, each keep their verdicts. Of a row the columns say all.
        """
        if recorded.columns:
            judged = _hash(self._target_hash, _bytes_of(recorded.columns))
        else:
            case = recorded.case
            expected = b"" if case is None else _to_json(case, exclude=_IS_NO_MATTER)
            judged = _hash(self._target_hash, _text_of(recorded.execution), expected)
        return judged, _hash(self._config_hash, judged)


_TARGET_PART = 8
"""So many characters at the beginning of an `execution_hash` are of the target's settings."""

_CHANGES_NO_ANSWER = {"eval_sets", "config", "watch", "rerun", "simulate_tools", "tools", "columns"}
"""What of a target an agent cannot see; what is simulated counts by what it says, not by the file that says it."""

_REACHES_AGENT: Any = {
    "conversation": {"__all__": {"user_content"}},
    "session_input": True,
    "conversation_scenario": True,
}
"""The part of a case that an agent can see: what is said to it and how its session starts."""

_IS_NO_MATTER: Any = {"eval_id", "creation_timestamp"}
"""The part of a case that can change no verdict on the same answers: its name and its age."""


def _text_of(execution: Execution) -> bytes:
    """What was recorded: as JSON, or as Python shows it where it is no JSON or nested too deeply."""
    try:
        return _execution_to_json(execution)
    except ValueError:
        return repr(execution).encode("utf-8", "backslashreplace")


def _bytes_of(columns: Mapping[str, Any]) -> bytes:
    """A row of JSON values; the same bytes for the same row, in a quarter of the time that writing JSON takes."""
    try:
        return marshal.dumps(dict(columns), _STABLE)
    except ValueError:  # nested too deeply
        return repr(columns).encode("utf-8", "backslashreplace")


_STABLE = 2
"""The version of marshal's format that has no references, which depend on more than the values."""


def _hash(*values: str | bytes) -> str:
    digest = hashlib.sha256()
    for value in values:
        digest.update(value if isinstance(value, bytes) else value.encode())
        digest.update(b"\0")
    return digest.hexdigest()[:32]
