"""The agents of a trace as a graph."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from rich.cells import cell_len

from workbench.model.trace import SpanKind
from workbench.tui.state.text_layout import Line, Style, StyledText, cut_line, safe_line, wrap
from workbench.tui.state.trace_tree import SYMBOLS, SpanNode, TraceTree

# The agents of a session with their tools, and how often each was used.

_MOST_AGENTS = 500  # agents, and tools of one agent; a larger graph is not readable


@dataclass(slots=True)
class GraphAgent:
    """One agent. `tools` counts the calls of each tool in this session, `visits` the runs of the agent itself."""

    name: str
    type: str = ""
    model: str = ""
    tools: dict[str, int] = field(default_factory=dict)
    below: list[str] = field(default_factory=list)
    visits: int = 0
    errors: set[str] = field(default_factory=set)  # tools with a failed call; "" for the agent itself


@dataclass(slots=True)
class Graph:
    """All agents by name, and the roots. `steps` are the agents and tools in the order in which they were used."""

    agents: dict[str, GraphAgent] = field(default_factory=dict)
    roots: list[str] = field(default_factory=list)
    steps: list[tuple[str, str]] = field(default_factory=list)  # agent and tool; the tool is "" for the agent itself


def make_graph(tree: TraceTree) -> Graph:
    """Make the graph from the reported agents, the app details, and the spans."""
    graph = Graph()
    for node in tree.ordered:
        if node.span.kind is SpanKind.INVOCATION:
            _add_reported_agents(graph, node.span.attributes.get("agents"))
    for turn in tree.turns:
        if turn.result is not None:
            _add_app_details(graph, turn.result.invocation.app_details)
    for node in tree.ordered:
        _add_span(graph, node)
    named_below = {name for agent in graph.agents.values() for name in agent.below}
    graph.roots = [name for name in graph.agents if name not in named_below] or list(graph.agents)[:1]
    return graph


def place_in_graph(node: SpanNode) -> tuple[str, str] | None:
    """Return the agent and tool of a span. The tool is "" for a span of the agent itself."""
    span = node.span
    owner = _find_agent(node)
    if span.kind is SpanKind.AGENT:
        return span.name, ""
    return None if owner is None else (owner, span.name if span.kind is SpanKind.TOOL else "")


def _add_reported_agents(graph: Graph, reported_agents: Any) -> None:
    if not isinstance(reported_agents, dict):
        return
    for name, facts in list(reported_agents.items())[:_MOST_AGENTS]:
        if not isinstance(facts, dict):
            continue
        agent = graph.agents.setdefault(name, GraphAgent(name))
        agent.type, agent.model = _text(facts.get("type")), _text(facts.get("model"))
        below = [other for other in _texts(facts.get("agents")) if other in reported_agents and other != name]
        _add(agent.below, below)
        for tool in _texts(facts.get("tools")):
            agent.tools.setdefault(tool, 0)


def _add_app_details(graph: Graph, details: Mapping[str, Any] | None) -> None:
    agents = (details or {}).get("agent_details") or (details or {}).get("agentDetails")
    for name, facts in agents.items() if isinstance(agents, dict) else ():
        agent = graph.agents.setdefault(name, GraphAgent(name))
        tools = facts.get("tool_declarations") or facts.get("toolDeclarations") if isinstance(facts, dict) else None
        for tool in _list_declarations(tools):
            if tool not in agent.below:
                agent.tools.setdefault(tool, 0)


def _add_span(graph: Graph, node: SpanNode) -> None:
    place = place_in_graph(node)
    if place is None:
        return
    name, tool = place
    agent = graph.agents.get(name)
    if agent is None:
        agent = graph.agents[name] = GraphAgent(name, type=_text(node.span.attributes.get("type")))
        around = _find_agent(node.parent) if node.parent is not None else None
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


def _find_agent(node: SpanNode | None) -> str | None:
    while node is not None:
        if node.span.kind is SpanKind.AGENT:
            return node.span.name
        node = node.parent
    return None


def _list_declarations(tools: Any) -> Iterable[str]:
    """Return the names in tool declarations of google.genai."""
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
    return [item for item in value[:_MOST_AGENTS] if isinstance(item, str)] if isinstance(value, list) else []


def count_repeated_steps(steps: Iterable[tuple[str, str]]) -> list[tuple[tuple[str, str], int]]:
    """Merge equal steps that follow each other, and count them."""
    counted: list[tuple[tuple[str, str], int]] = []
    for step in steps:
        if counted and counted[-1][0] == step:
            counted[-1] = (step, counted[-1][1] + 1)
        else:
            counted.append((step, 1))
    return counted


# The graph in box-drawing characters: a box for each agent with its tools; sub-agents are indented.

_HERE = "◀ selected"
_LEAST_BOX = 16
_WIDEST_BOX = 56
_DEEPEST = 6  # levels that are indented further
_MOST_STEPS = 60


class _Frame(NamedTuple):
    top: tuple[str, str, str]
    side: str
    bottom: tuple[str, str, str]
    stem: str


_LIGHT = _Frame(("┌", "─", "┐"), "│", ("└", "─", "┘"), "┬")
_HEAVY = _Frame(("┏", "━", "┓"), "┃", ("┗", "━", "┛"), "┳")


def draw_graph(graph: Graph, *, width: int, here: tuple[str, str] | None) -> list[Line]:
    """Draw the graph, and below it the path. `here` is the agent and tool of the selected span."""
    if not graph.agents:
        return [(StyledText("No agent or tool is known: the spans of this session name none.", Style.MUTED),)]
    lines: list[Line] = []
    drawn: set[str] = set()
    for root in graph.roots:
        lines += _tree(graph, root, width=width, here=here, drawn=drawn)
    return [*lines, (), *_path(graph, width=width)]


def _tree(graph: Graph, root: str, *, width: int, here: tuple[str, str] | None, drawn: set[str]) -> Iterator[Line]:
    """Draw an agent and its sub-agents, each of them once. A line refers to the box of an agent drawn before."""
    waiting: list[tuple[str, tuple[bool, ...]]] = [(root, ())]
    while waiting:
        name, lasts = waiting.pop()
        agent = graph.agents[name]
        trunk = "".join("   " if last else " │ " for last in lasts[:-1][-_DEEPEST:])
        branch = (" ╰▶" if lasts[-1] else " ├▶") if lasts else ""
        below = "".join("   " if last else " │ " for last in lasts[-_DEEPEST:])
        if name in drawn:
            yield (StyledText(f"{trunk}{branch} {SYMBOLS[SpanKind.AGENT]} {safe_line(name)}, see above", Style.MUTED),)
            continue
        drawn.add(name)
        room = max(width - cell_len(below), _LEAST_BOX)
        for number, line in enumerate(_box(agent, width=room, here=here)):
            yield (StyledText(f"{trunk}{branch}" if number == 1 else f"{trunk}{' │ ' if lasts else ''}" if number == 0
                         else below, Style.MUTED), *line)  # fmt: skip
        children = [child for child in agent.below if child in graph.agents]
        waiting += [(child, (*lasts, child == children[-1])) for child in reversed(children)]


def _box(agent: GraphAgent, *, width: int, here: tuple[str, str] | None) -> Iterator[Line]:
    frame = _HEAVY if agent.visits else _LIGHT
    style = Style.PASSED if agent.visits else Style.MUTED
    rows = list(_box_rows(agent, here=here))
    inner = max(cell_len(left) + cell_len(right) + 2 for _, left, right, _ in rows)
    inner = min(max(inner, _LEAST_BOX), _WIDEST_BOX, width - 4 - cell_len(_HERE) - 1)
    inner = max(inner, 6)
    left_corner, line, right_corner = frame.top
    yield (StyledText(f"{left_corner}{line * (inner + 2)}{right_corner}", style),)
    for symbol_tone, left, right, is_here in rows:
        text = cut_line((StyledText(left, symbol_tone),), max(inner - cell_len(right) - 1, 1))
        gap = inner - sum(cell_len(piece.text) for piece in text) - cell_len(right)
        mark = (StyledText(f" {_HERE}", Style.HEADING),) if is_here else ()
        yield (
            StyledText(f"{frame.side} ", style), *text, StyledText(" " * max(gap, 0)), StyledText(right, symbol_tone),
            StyledText(f" {frame.side}", style), *mark,
        )  # fmt: skip
    left_corner, line, right_corner = frame.bottom
    stem = frame.stem if agent.below else line
    yield (StyledText(f"{left_corner}{stem}{line * (inner + 1)}{right_corner}", style),)


def _box_rows(agent: GraphAgent, *, here: tuple[str, str] | None) -> Iterator[tuple[Style, str, str, bool]]:
    """Return the rows of a box: style, left text, right text, and whether the selected span belongs to the row."""
    failed = " !" if "" in agent.errors else ""
    style = Style.STRONG if agent.visits else Style.MUTED
    name = f"{SYMBOLS[SpanKind.AGENT]} {safe_line(agent.name)}"
    yield (
        Style.ERROR if failed else style,
        name,
        f"×{agent.visits}{failed}" if agent.visits else "",
        (here == (agent.name, "")),
    )
    about = " · ".join(filter(None, (safe_line(agent.type), safe_line(agent.model))))
    if about:
        yield Style.MUTED, f"  {about}", "", False
    for tool, calls in agent.tools.items():
        if tool in agent.below and not calls:
            continue  # an agent used as a tool has its own box
        failed = " !" if tool in agent.errors else ""
        style = Style.ERROR if failed else Style.TEXT if calls else Style.MUTED
        mark = SYMBOLS[SpanKind.TOOL]
        yield style, f"  {mark} {safe_line(tool)}", f"×{calls}{failed}" if calls else "", here == (agent.name, tool)


def _path(graph: Graph, *, width: int) -> Iterator[Line]:
    """Draw the steps in order as a wrapped text. Equal steps that follow each other are counted."""
    steps = count_repeated_steps(graph.steps)
    parts = []
    for (agent, tool), count in steps[:_MOST_STEPS]:
        symbol = SYMBOLS[SpanKind.TOOL if tool else SpanKind.AGENT]
        parts.append(f"{symbol} {safe_line(tool or agent)}{f' ×{count}' if count > 1 else ''}")
    if len(steps) > _MOST_STEPS:
        parts.append(f"… {len(steps) - _MOST_STEPS:,} more")
    yield (StyledText("call path", Style.HEADING),)
    text = " → ".join(parts) or "no calls"
    for start, end in wrap(text, max(width, 8)):
        yield (StyledText(text[start:end]),)
