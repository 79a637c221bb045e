"""The graph of a session in box-drawing characters: a box for each agent with its tools, those below it indented.

What was used in the session has a heavy frame and a count, the rest a light one; the place of the selected span is
marked with an arrow. Neither depends on colour.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from rich.cells import cell_len

from workbench.model.trace import SpanKind
from workbench.tui.state.layout import fit, wrap
from workbench.tui.state.pieces import Line, Piece, Tone, safe_line
from workbench.tui.state.trace.facts import SYMBOLS
from workbench.tui.state.trace.graph import Graph, GraphAgent, counted_steps

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
    """The lines of the graph and the path taken below it. `here` is the agent and tool of the selected span."""
    if not graph.agents:
        return [(Piece("No agent or tool is known: the spans of this session name none.", Tone.MUTED),)]
    lines: list[Line] = []
    drawn: set[str] = set()
    for root in graph.roots:
        lines += _tree(graph, root, width=width, here=here, drawn=drawn)
    return [*lines, (), *_path(graph, width=width)]


def _tree(graph: Graph, root: str, *, width: int, here: tuple[str, str] | None, drawn: set[str]) -> Iterator[Line]:
    """An agent and all below it, each drawn once: where one is met again, a line refers to its box."""
    waiting: list[tuple[str, tuple[bool, ...]]] = [(root, ())]
    while waiting:
        name, lasts = waiting.pop()
        agent = graph.agents[name]
        trunk = "".join("   " if last else " │ " for last in lasts[:-1][-_DEEPEST:])
        branch = (" ╰▶" if lasts[-1] else " ├▶") if lasts else ""
        below = "".join("   " if last else " │ " for last in lasts[-_DEEPEST:])
        if name in drawn:
            yield (Piece(f"{trunk}{branch} {SYMBOLS[SpanKind.AGENT]} {safe_line(name)}, see above", Tone.MUTED),)
            continue
        drawn.add(name)
        room = max(width - cell_len(below), _LEAST_BOX)
        for number, line in enumerate(_box(agent, width=room, here=here)):
            yield (Piece(f"{trunk}{branch}" if number == 1 else f"{trunk}{' │ ' if lasts else ''}" if number == 0
                         else below, Tone.MUTED), *line)  # fmt: skip
        children = [child for child in agent.below if child in graph.agents]
        waiting += [(child, (*lasts, child == children[-1])) for child in reversed(children)]


def _box(agent: GraphAgent, *, width: int, here: tuple[str, str] | None) -> Iterator[Line]:
    frame = _HEAVY if agent.visits else _LIGHT
    tone = Tone.PASSED if agent.visits else Tone.MUTED
    rows = list(_box_rows(agent, here=here))
    inner = max(cell_len(left) + cell_len(right) + 2 for _, left, right, _ in rows)
    inner = min(max(inner, _LEAST_BOX), _WIDEST_BOX, width - 4 - cell_len(_HERE) - 1)
    inner = max(inner, 6)
    left_corner, line, right_corner = frame.top
    yield (Piece(f"{left_corner}{line * (inner + 2)}{right_corner}", tone),)
    for symbol_tone, left, right, is_here in rows:
        text = fit((Piece(left, symbol_tone),), max(inner - cell_len(right) - 1, 1))
        gap = inner - sum(cell_len(piece.text) for piece in text) - cell_len(right)
        mark = (Piece(f" {_HERE}", Tone.HEADING),) if is_here else ()
        yield (
            Piece(f"{frame.side} ", tone), *text, Piece(" " * max(gap, 0)), Piece(right, symbol_tone),
            Piece(f" {frame.side}", tone), *mark,
        )  # fmt: skip
    left_corner, line, right_corner = frame.bottom
    stem = frame.stem if agent.below else line
    yield (Piece(f"{left_corner}{stem}{line * (inner + 1)}{right_corner}", tone),)


def _box_rows(agent: GraphAgent, *, here: tuple[str, str] | None) -> Iterator[tuple[Tone, str, str, bool]]:
    """For each row of a box: tone, what stands on the left and on the right, whether the selected span is there."""
    failed = " !" if "" in agent.errors else ""
    tone = Tone.STRONG if agent.visits else Tone.MUTED
    name = f"{SYMBOLS[SpanKind.AGENT]} {safe_line(agent.name)}"
    yield (
        Tone.ERROR if failed else tone,
        name,
        f"×{agent.visits}{failed}" if agent.visits else "",
        (here == (agent.name, "")),
    )
    about = " · ".join(filter(None, (safe_line(agent.type), safe_line(agent.model))))
    if about:
        yield Tone.MUTED, f"  {about}", "", False
    for tool, calls in agent.tools.items():
        if tool in agent.below and not calls:
            continue  # an agent used as a tool has its own box
        failed = " !" if tool in agent.errors else ""
        tone = Tone.ERROR if failed else Tone.TEXT if calls else Tone.MUTED
        mark = SYMBOLS[SpanKind.TOOL]
        yield tone, f"  {mark} {safe_line(tool)}", f"×{calls}{failed}" if calls else "", here == (agent.name, tool)


def _path(graph: Graph, *, width: int) -> Iterator[Line]:
    """The steps in their order, the same ones in a row counted, as a text that wraps."""
    steps = counted_steps(graph.steps)
    parts = []
    for (agent, tool), count in steps[:_MOST_STEPS]:
        symbol = SYMBOLS[SpanKind.TOOL if tool else SpanKind.AGENT]
        parts.append(f"{symbol} {safe_line(tool or agent)}{f' ×{count}' if count > 1 else ''}")
    if len(steps) > _MOST_STEPS:
        parts.append(f"… {len(steps) - _MOST_STEPS:,} more")
    yield (Piece("path taken", Tone.HEADING),)
    text = " → ".join(parts) or "nothing was called"
    for start, end in wrap(text, max(width, 8)):
        yield (Piece(text[start:end]),)
