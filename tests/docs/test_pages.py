"""The pages of the documentation: navigation, links, and generated parts."""

from __future__ import annotations

import html
import re
from pathlib import Path

import pytest

from tests.docs.blocks import PAGES, ROOT, find_blocks
from tests.docs.make import PARTS, generate_page
from tests.pictures.make import ALL, THEMES

README = ROOT / "README.md"
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_THEMES = ("gh-dark-mode-only", "gh-light-mode-only")  # of pictures, which GitHub and the website show on such pages
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


@pytest.mark.parametrize("name", PARTS)
def test_generated_parts_are_up_to_date(name: str) -> None:
    text = (ROOT / "docs" / name).read_text(encoding="utf-8")

    assert text == generate_page(name), "out of date; run: python tests/docs/make.py"


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_point_to_existing_pages_and_headings(path: Path) -> None:
    broken = []
    for link in _LINK.findall(_read_without_blocks(path)):
        if link.startswith("https://"):
            continue
        name, _, anchor = link.partition("#")
        target = (path.parent / name).resolve() if name else path
        anchors = find_anchors(target) if target.suffix == ".md" else _THEMES
        if not target.is_file() or (anchor and anchor not in anchors):
            broken.append(link)

    assert broken == []


def test_each_picture_of_the_screen_is_there_for_dark_and_light_pages() -> None:
    page = (ROOT / "docs" / "screen.md").read_text(encoding="utf-8")
    links = [link for link in _LINK.findall(page) if link.startswith("pictures/")]

    expected = [
        f"pictures/{picture.name}{ending}.svg#gh-{theme}-mode-only"
        for picture in ALL
        for theme, ending in THEMES.items()
    ]
    assert sorted(links) == sorted(expected)


def test_every_page_is_in_the_navigation() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").split("\nnav:\n")[1]

    docs = {path.relative_to(ROOT / "docs").as_posix() for path in PAGES if path != README}
    assert set(re.findall(r"[\w/-]+\.md", navigation)) == docs


def test_the_readme_is_short() -> None:
    assert len(README.read_text(encoding="utf-8").splitlines()) <= 160


def test_the_first_two_readme_blocks_run_the_demo_and_the_tests() -> None:
    first, second = [block.text for block in find_blocks("sh") if block.page == "README.md"][:2]

    assert first.rstrip().endswith("workbench demo")
    assert "python -m pytest -n auto" in second


def find_anchors(path: Path) -> set[str]:
    """Return the anchors of a page's headings, which are the same on the code host and in mkdocs."""
    return {_make_anchor(heading) for heading in _HEADING.findall(_read_without_blocks(path))}


def _make_anchor(heading: str) -> str:
    plain = html.unescape(re.sub(r"[^\w\s-]", "", heading.replace("`", "")))
    return re.sub(r"\s+", "-", plain.strip().lower())


def _read_without_blocks(path: Path) -> str:
    return re.sub(r"^```.*?^```$", "", path.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
