"""A real project whose function agent calls the tools that its prompt names."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from tests.llm.servers import Answer, Server, gemini, run_server
from workbench.engine.plan import RunOptions, Selection
from workbench.engine.run import Run
from workbench.engine.workspace import Workspace
from workbench.model.results import CaseResult
from workbench.model.trace import Span, SpanKind

AGENT = """
    import json
    from shop import tools

    def answer(prompt):
        \"\"\"Each line of the prompt is a call: the name of a tool, then its arguments as JSON.\"\"\"
        calls, said = [], []
        for line in prompt.splitlines():
            name, _, args = line.partition(" ")
            args = json.loads(args or "{}")
            calls.append({"tool_name": name, "tool_input": args})
            try:
                said.append(json.dumps(tools.TOOLS[name](**args)))
            except tools.ShopError as error:
                said.append(f"{type(error).__name__} {error.reason}")
        return {"response": "; ".join(said), "predicted_trajectory": calls}
"""

TOOLS = """
    class ShopError(Exception):
        def __init__(self, reason):
            super().__init__(reason)
            self.reason = reason

    def get_order(order_id: str, fast: bool = False) -> dict:
        \"\"\"Look an order up.\"\"\"
        open("called.txt", "a").write(f"get_order {order_id}\\n")
        if order_id == "none":
            raise ShopError("no such order")
        return {"order_id": order_id, "status": "REAL"}

    def cancel_order(order_id: str) -> dict:
        \"\"\"Cancel an order.\"\"\"
        open("called.txt", "a").write(f"cancel_order {order_id}\\n")
        return {"cancelled": order_id}

    TOOLS = {"get_order": get_order, "cancel_order": cancel_order}
"""


class Project:
    """A folder with the function agent `agent:answer` and the tools of `shop.tools`."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.settings()
        self.write("agent.py", AGENT)
        self.write("shop/__init__.py", "")
        self.write("shop/tools.py", TOOLS)
        self.write("test_config.json", json.dumps({"criteria": {"tool_trajectory_avg_score": None}}))

    def write(self, name: str, text: str) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text), encoding="utf-8")
        return path

    def settings(self, more: str = "", *, kind: str = "function", target: str = "agent:answer") -> None:
        text = f'[targets.sample]\nkind = "{kind}"\ntarget = "{target}"\neval_sets = ["*.evalset.json"]\n{more}\n'
        self.write("workbench.toml", text)

    def cases(self, **prompts: str | Sequence[str]) -> None:
        """Write the eval set `set`: for each case its prompt, or one prompt for each turn."""
        cases = [
            {
                "eval_id": eval_id,
                "conversation": [
                    {"user_content": {"role": "user", "parts": [{"text": text}]}}
                    for text in ([texts] if isinstance(texts, str) else texts)
                ],
            }
            for eval_id, texts in prompts.items()
        ]
        self.write("set.evalset.json", json.dumps({"eval_set_id": "set", "eval_cases": cases}))

    def environment(self, *tools: dict[str, Any], **others: Any) -> Path:
        """Write `environment.json`."""
        return self.write("environment.json", json.dumps({"tool_simulation_configs": tools, **others}))

    def run(self, **options: Any) -> Run:
        with Workspace.open(self.root) as workspace:
            plan = workspace.plan([Selection(eval_set="set.evalset.json")], RunOptions(**options))
            run = workspace.start(plan)
            list(run.iter_events())
            return run

    @property
    def real_calls(self) -> list[str]:
        """The calls that reached the real tools."""
        path = self.root / "called.txt"
        return path.read_text().splitlines() if path.exists() else []


def get_result(run: Run, eval_id: str = "one", repeat: int = 0) -> CaseResult:
    return next(each for each in run.results() if (each.case.eval_id, each.repeat) == (eval_id, repeat))


def get_responses(run: Run, eval_id: str = "one", repeat: int = 0) -> list[str]:
    """Return the responses of the agent, turn by turn."""
    case_result = get_result(run, eval_id, repeat)
    assert case_result.failure is None, case_result.failure
    responses = [turn.invocation.final_response for turn in case_result.execution.turns]
    return ["" if response is None else response.text() for response in responses]


def get_failure(run: Run, eval_id: str = "one") -> tuple[str, str]:
    """Return the kind and the message of the failure that ended a case in ERROR."""
    case_failure = get_result(run, eval_id).failure
    assert case_failure is not None
    return case_failure.kind.value, case_failure.message


def get_tool_spans(run: Run, eval_id: str = "one") -> list[Span]:
    return [span for span in get_result(run, eval_id).execution.spans if span.kind is SpanKind.TOOL]


def get_sources(run: Run, eval_id: str = "one") -> list[str | None]:
    """Return the source of the answer to each call, in the order of the spans; None is the tool itself."""
    return [span.attributes.get("workbench.simulated") for span in get_tool_spans(run, eval_id)]


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """A model with answers that a test sets; by default it gives an unreadable answer."""
    with run_server(lambda _: gemini("I would rather not.")) as server:
        monkeypatch.setenv("GOOGLE_API_KEY", "key")
        monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", server.url)
        yield server


__all__ = ["Answer", "Project", "get_failure", "get_responses", "get_result", "get_sources", "get_tool_spans"]
