"""What is planned for the tools of a run's cases: simulated, replayed, recorded, or none of it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from workbench.model.environment import Environment
from workbench.model.keys import CaseKey
from workbench.model.target import Unrecorded
from workbench.simulation.tools.prompts import PROMPTS
from workbench.simulation.tools.recording import ToolRecording


@dataclass(frozen=True, kw_only=True)
class ToolPlan:
    """What happens with calls of tools in the cases of one target. What is replayed comes before what is simulated.

    `functions` says where tools are that are functions: `module:name` by the tool's name. `record` is the file that
    gets what came of every call. `scripted`: a script answers where a model would. `files` are those that say what
    answers.
    """

    environment: Environment | None = None
    replay: ToolRecording | None = None
    unrecorded: Unrecorded = "error"
    record: Path | None = None
    functions: Mapping[str, str] = field(default_factory=dict)
    scripted: bool = False
    files: tuple[Path, ...] = ()

    @property
    def changes_answers(self) -> bool:
        """Whether an agent may get other answers than its tools give."""
        return self.environment is not None or self.replay is not None

    def digest(self, case: CaseKey) -> str:
        """Another text wherever the tools of a case may answer otherwise; empty where the tools themselves answer."""
        if not self.changes_answers:
            return ""
        replayed = [] if self.replay is None else self.replay.all_of(case)
        by_case = self.environment is not None and self.environment.draws_by_case
        parts = [
            self._common,
            case.eval_id if by_case else "",
            "" if self.replay is None else json.dumps([each.model_dump(mode="json") for each in replayed]),
        ]
        return hashlib.sha256("\0".join(parts).encode("utf-8", "backslashreplace")).hexdigest()

    @cached_property
    def _common(self) -> str:
        environment = self.environment
        simulated = None
        if environment is not None:
            left_out: Any = {"source": True, "tools": {"__all__": {"place"}}}
            simulated = environment.model_dump(mode="json", exclude=left_out)
            if environment.asks_model:
                simulated |= {"prompts": PROMPTS.version, "scripted": self.scripted}
        facts = {
            "simulated": simulated,
            "unrecorded": None if self.replay is None else self.unrecorded,
            "functions": dict(self.functions),
        }
        return json.dumps(facts, sort_keys=True)

    @property
    def notice(self) -> str | None:
        """What people are told before a run in which tools do not answer by themselves."""
        said = []
        if self.replay is not None:
            said.append(f"tool calls are answered from {self.replay.path}")
        if self.environment is not None:
            names = ", ".join(tool.name for tool in self.environment.tools)
            script = " (a script answers in place of the model)" if self.scripted else ""
            said.append(f"tools are simulated by {self.environment.source}: {names}{script}")
        return "; ".join(said) or None
