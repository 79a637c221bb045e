"""The pages of the documentation: they are found, their links lead somewhere, generated parts are up to date."""

from __future__ import annotations

import html
import re
from pathlib import Path

import pytest

from tests.docs.blocks import PAGES, ROOT, blocks_of
from tests.docs.make import PARTS, page

README = ROOT / "README.md"
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


@pytest.mark.parametrize("name", PARTS)
def test_generated_parts_are_up_to_date(name: str) -> None:
    written = (ROOT / "docs" / name).read_text(encoding="utf-8")

    assert written == page(name), "out of date; run: python tests/docs/make.py"


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(path: Path) -> None:
    broken = []
    for link in _LINK.findall(_without_blocks(path)):
        if link.startswith("https://"):
            continue
        name, _, anchor = link.partition("#")
        target = (path.parent / name).resolve() if name else path
        if not target.is_file() or (anchor and anchor not in anchors(target)):
            broken.append(link)

    assert broken == []


def test_every_page_is_in_the_navigation() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").split("\nnav:\n")[1]

    docs = {path.relative_to(ROOT / "docs").as_posix() for path in PAGES if path != README}
    assert set(re.findall(r"[\w/-]+\.md", navigation)) == docs


def test_the_readme_is_short() -> None:
    assert len(README.read_text(encoding="utf-8").splitlines()) <= 160


def test_the_first_two_commands_try_the_samples_and_run_the_tests() -> None:
    first, second = [block.text for block in blocks_of("sh") if block.page == "README.md"][:2]

    assert first.rstrip().endswith("workbench demo")
    assert "python -m pytest -n auto" in second


def anchors(path: Path) -> set[str]:
    """The anchors of a page's headings, which the code host and mkdocs make alike."""
    return {_anchor(heading) for heading in _HEADING.findall(_without_blocks(path))}


def _anchor(heading: str) -> str:
    plain = html.unescape(re.sub(r"[^\w\s-]", "", heading.replace("`", "")))
    return re.sub(r"\s+", "-", plain.strip().lower())


def _without_blocks(path: Path) -> str:
    return re.sub(r"^```.*?^```$", "", path.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
