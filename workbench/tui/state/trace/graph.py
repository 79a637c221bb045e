"""The agents of a session, what each of them has, and how often it was used: what the graph draws.

Told by the adapter where it knows (`agents` on an invocation's span), by what models were offered (`app_details`), and
by the spans themselves: an agent below an agent is one that it ran.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from workbench.model.trace import SpanKind
from workbench.tui.state.trace.tree import Node, TraceTree

_MOST_TOLD = 500  # agents, and tools of one agent: a graph of more is not readable


@dataclass(slots=True)
class GraphAgent:
    """One agent. `tools` has how often each was called in this session, `visits` how often the agent itself ran."""

    name: str
    type: str = ""
    model: str = ""
    tools: dict[str, int] = field(default_factory=dict)
    below: list[str] = field(default_factory=list)
    visits: int = 0
    errors: set[str] = field(default_factory=set)  # of its tools, those of which a call failed; "" for itself


@dataclass(slots=True)
class Graph:
    """All agents by name, and from which to begin. `steps` are the agents and tools in the order they were used."""

    agents: dict[str, GraphAgent] = field(default_factory=dict)
    roots: list[str] = field(default_factory=list)
    steps: list[tuple[str, str]] = field(default_factory=list)  # agent and tool; the tool is "" for the agent itself


def graph_of(tree: TraceTree) -> Graph:
    """What was made of what, and what of it was used."""
    graph = Graph()
    for node in tree.ordered:
        if node.span.kind is SpanKind.INVOCATION:
            _take_told(graph, node.span.attributes.get("agents"))
    for turn in tree.turns:
        if turn.result is not None:
            _take_app_details(graph, turn.result.invocation.app_details)
    for node in tree.ordered:
        _take_span(graph, node)
    named_below = {name for agent in graph.agents.values() for name in agent.below}
    graph.roots = [name for name in graph.agents if name not in named_below] or list(graph.agents)[:1]
    return graph


def place_in_graph(node: Node) -> tuple[str, str] | None:
    """The agent and tool that a span belongs to; the tool is "" where it is the agent's own."""
    span = node.span
    owner = _agent_of(node)
    if span.kind is SpanKind.AGENT:
        return span.name, ""
    return None if owner is None else (owner, span.name if span.kind is SpanKind.TOOL else "")


def _take_told(graph: Graph, told: Any) -> None:
    if not isinstance(told, dict):
        return
    for name, facts in list(told.items())[:_MOST_TOLD]:
        if not isinstance(facts, dict):
            continue
        agent = graph.agents.setdefault(name, GraphAgent(name))
        agent.type, agent.model = _text(facts.get("type")), _text(facts.get("model"))
        below = [other for other in _texts(facts.get("agents")) if other in told and other != name]
        _add(agent.below, below)
        for tool in _texts(facts.get("tools")):
            agent.tools.setdefault(tool, 0)


def _take_app_details(graph: Graph, details: Mapping[str, Any] | None) -> None:
    agents = (details or {}).get("agent_details") or (details or {}).get("agentDetails")
    for name, facts in agents.items() if isinstance(agents, dict) else ():
        agent = graph.agents.setdefault(name, GraphAgent(name))
        tools = facts.get("tool_declarations") or facts.get("toolDeclarations") if isinstance(facts, dict) else None
        for tool in _declared(tools):
            if tool not in agent.below:
                agent.tools.setdefault(tool, 0)


def _take_span(graph: Graph, node: Node) -> None:
    place = place_in_graph(node)
    if place is None:
        return
    name, tool = place
    agent = graph.agents.get(name)
    if agent is None:
        agent = graph.agents[name] = GraphAgent(name, type=_text(node.span.attributes.get("type")))
        around = _agent_of(node.parent) if node.parent is not None else None
        if around is not None and around != name:
            _add(graph.agents[around].below, [name])
    if node.span.kind is SpanKind.AGENT:
        agent.visits += 1
        graph.steps.append(place)
    elif node.span.kind is SpanKind.TOOL:
        agent.tools[tool] = agent.tools.get(tool, 0) + 1
        graph.steps.append(place)
    if node.span.error is not None:
        agent.errors.add(tool)


def _agent_of(node: Node | None) -> str | None:
    while node is not None:
        if node.span.kind is SpanKind.AGENT:
            return node.span.name
        node = node.parent
    return None


def _declared(tools: Any) -> Iterable[str]:
    """Names out of tool declarations as google.genai writes them."""
    for tool in tools if isinstance(tools, list) else ():
        if not isinstance(tool, dict):
            continue
        for declaration in tool.get("function_declarations") or tool.get("functionDeclarations") or ():
            if isinstance(declaration, dict) and isinstance(declaration.get("name"), str):
                yield declaration["name"]


def _add(names: list[str], more: Iterable[str]) -> None:
    names += [name for name in dict.fromkeys(more) if name not in names]


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _texts(value: Any) -> list[str]:
    return [item for item in value[:_MOST_TOLD] if isinstance(item, str)] if isinstance(value, list) else []


def counted_steps(steps: Iterable[tuple[str, str]]) -> list[tuple[tuple[str, str], int]]:
    """Steps with those that follow themselves taken together."""
    counted: list[tuple[tuple[str, str], int]] = []
    for step in steps:
        if counted and counted[-1][0] == step:
            counted[-1] = (step, counted[-1][1] + 1)
        else:
            counted.append((step, 1))
    return counted
