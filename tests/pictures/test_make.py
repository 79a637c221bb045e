"""The recording: its frames as an animated SVG file, and the script that makes it."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.pictures.animation import Frame, Run, animate
from tests.pictures.make import FIRST_CASE, PICTURES, STORY, Scene, record

NAMESPACE = "{http://www.w3.org/2000/svg}"


def make_frame(*lines: str, seconds: float = 1) -> Frame:
    rows = [(Run(0, line, "#ffffff", "#000000", is_bold=False),) for line in lines]
    return Frame(rows, seconds, "r", "run")


def find_intervals(svg: str, text: str) -> list[tuple[str, str]]:
    """Return the values and times of the animations of a row with this text."""
    groups = [
        group for group in ET.fromstring(svg).iter(f"{NAMESPACE}g") if group.find(f"{NAMESPACE}animate") is not None
    ]
    found = [group for group in groups if text in "".join(group.itertext())]
    animations = [animation for group in found for animation in group.iter(f"{NAMESPACE}animate")]
    return [(each.attrib["values"], each.attrib["keyTimes"]) for each in animations]


def test_each_row_is_stored_once_and_shown_during_its_frames() -> None:
    frames = [make_frame("same", "first"), make_frame("same", "second", seconds=2), make_frame("same", "first")]

    svg = animate(frames, columns=20, divide_at=10, poster=1)

    assert [svg.count(word) for word in ("same", "first", "second")] == [1, 1, 1]
    assert find_intervals(svg, "first") == [("visible;hidden;visible", "0.0000;0.2500;0.7500")]
    assert find_intervals(svg, "second") == [("hidden;visible;hidden", "0.0000;0.2500;0.7500")]
    assert find_intervals(svg, "same") == []
    hidden = [group for group in ET.fromstring(svg).iter(f"{NAMESPACE}g") if group.get("visibility") == "hidden"]
    assert ["".join(group.itertext()) for group in hidden] == ["first"]


def test_text_stays_text_and_keeps_its_cells() -> None:
    svg = animate([make_frame("<b>&" + 20 * " " + "end", seconds=1)], columns=30, divide_at=30, poster=0)

    texts = {text.text: text.get("x") for text in ET.fromstring(svg).iter(f"{NAMESPACE}text")}
    assert texts.items() >= {"<b>&": "0", "end": "240"}.items()


@pytest.mark.needs_fork
async def test_the_script_records_the_begin_of_the_story(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))  # the script sets it too

    await record(STORY[:3], tmp_path / "recording.svg", poster=2)

    svg = (tmp_path / "recording.svg").read_text(encoding="utf-8")
    assert find_intervals(svg, "15/15")
    assert "device_5" in svg
    assert str(tmp_path) not in svg


def test_a_first_case_of_two_turns_is_written_run_and_accepted_with_the_keys_that_the_caption_counts() -> None:
    keys = [key for scene in FIRST_CASE for key in scene.keys if key != "tab"]

    assert f": {len(keys)} keys beside the text" in FIRST_CASE[-1].words


@pytest.mark.parametrize(("name", "story"), [("recording", STORY), ("first-case", FIRST_CASE)])
def test_a_recording_is_small_and_needs_nothing_else(name: str, story: Sequence[Scene]) -> None:
    svg = (PICTURES / f"{name}.svg").read_text(encoding="utf-8")

    assert len(svg.encode()) < 300_000
    assert not re.search(r"<script|@font-face|href|url\(|https?://(?!www\.w3\.org)", svg)
    texts = {"".join(text.itertext()).split("  ")[-1] for text in ET.fromstring(svg).iter(f"{NAMESPACE}text")}
    assert {scene.words for scene in story} <= texts
