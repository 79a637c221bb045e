"""The fenced blocks of README and docs, and the checks of each kind.

| kind | check by a test |
|---|---|
| `sh` | runs every command in a copy of a sample project; `.ci/run` runs the two that set up a checkout |
| `bash` | parses the command line without running it: it needs a key, a network, a screen or an installation |
| `python` | runs it |
| `py` | compiles it and runs only its imports: the rest needs a key, or pytest |
| `toml` | reads it as `workbench.toml` or `pyproject.toml` |
| `json` | reads it in the format that its keys indicate |
| `yaml` | reads it |
| `text` | output; compared if it follows `sh` in README or tutorial; its `$` lines are parsed as commands |
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
KINDS = ("sh", "bash", "python", "py", "toml", "json", "yaml", "text")

_BLOCK = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_FILE = re.compile(r"`([\w/-]+\.[\w.]+)`[^`\n]*:\n\n\Z")


@dataclass(frozen=True)
class Block:
    """One block: its position, its kind, and the file that the line before it names (`agent.py` is ...:)."""

    page: str
    line: int
    kind: str
    text: str
    file: str | None

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def read_blocks(page: Path) -> list[Block]:
    """Return all blocks of a page, in order."""
    text = page.read_text(encoding="utf-8")
    blocks = []
    for match in _BLOCK.finditer(text):
        file = _FILE.search(text, 0, match.start())
        line = text.count("\n", 0, match.start()) + 1
        name = str(page.relative_to(ROOT))
        blocks.append(Block(name, line, match[1], match[2], file[1] if file else None))
    return blocks


BLOCKS = tuple(block for page in PAGES for block in read_blocks(page))


def find_blocks(kind: str) -> list[Block]:
    """Return the blocks of one kind on all pages."""
    return [block for block in BLOCKS if block.kind == kind]


def read_commands(block: Block) -> list[str]:
    """Return the commands of a block, with continued lines joined; for output, the text after each `$`."""
    text = block.text.replace("\\\n", " ")
    if block.kind == "text":
        return [line[2:] for line in text.splitlines() if line.startswith("$ ")]
    return [line for line in text.splitlines() if line.strip()]
