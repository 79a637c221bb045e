"""Remote datasets in the browser: listed at once, read only when their rows are needed."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.serving import QuietHandler, run_http_server

pytestmark = pytest.mark.needs_fsspec

CALL = {"tool_name": "set_light", "tool_input": {"room": "hall"}}
FAR = "http://…/rows.jsonl"
ROWS: list[dict[str, Any]] = [
    {"eval_id": "on", "predicted_trajectory": [CALL], "reference_trajectory": [CALL]},
    {"eval_id": "off", "predicted_trajectory": ["list_lights"], "reference_trajectory": [CALL]},
]


class Storage:
    """A server with one file; it answers while `is_open` is set and counts the requests."""

    def __init__(self) -> None:
        self.rows = ROWS
        self.request_count = 0
        self.is_open = threading.Event()
        self.is_open.set()
        storage = self

        class Handler(QuietHandler):
            def do_GET(self) -> None:
                storage.request_count += 1
                storage.is_open.wait(20)
                is_there = self.path == "/rows.jsonl?token=hush"
                self.send_response(200 if is_there else 404)
                self.end_headers()
                if is_there:
                    self.wfile.write("".join(f"{json.dumps(row)}\n" for row in storage.rows).encode())

        self.handler = Handler
        self.address = ""


@pytest.fixture
def storage() -> Iterator[Storage]:
    storage = Storage()
    with run_http_server(storage.handler) as address:
        storage.address = f"{address}/rows.jsonl"
        yield storage
        storage.is_open.set()


@pytest.fixture
def project(tmp_path: Path, storage: Storage) -> Path:
    write_settings(tmp_path, f"{storage.address}?token=hush")
    (tmp_path / "test_config.json").write_text('{"criteria": {"trajectory_exact_match": 1.0}}')
    return tmp_path


def write_settings(folder: Path, *eval_sets: str) -> None:
    text = f'[targets.stored]\nkind = "recorded"\neval_sets = {json.dumps(eval_sets)}\n'
    (folder / "workbench.toml").write_text(text)


def list_labels(screen: Any) -> list[str]:
    return [row.label for row in screen.state.browser.rows]


async def test_an_address_is_listed_at_once_and_read_when_it_is_opened(
    project: Path, storage: Storage, open_app: Callable[..., Any]
) -> None:
    async with open_app(project) as screen:
        await screen.until("rows.jsonl", "not read")
        await screen.press("down")
        await screen.until("enter reads them", storage.address)
        assert storage.request_count == 0

        await screen.press("enter")
        await screen.until(" on ", " off ")

        assert storage.request_count == 1
        assert "hush" not in screen.text


async def test_a_run_of_an_address_reads_it_first(
    project: Path, storage: Storage, open_app: Callable[..., Any]
) -> None:
    async with open_app(project) as screen:
        await screen.until("not read")
        await screen.press("R")
        await screen.until("finished", "✓1", "✗1", " off ")
        await screen.press("R")
        await screen.until("finished")

        assert storage.request_count == 1
    stored_files = [path for path in (project / ".workbench").rglob("*") if path.is_file()]
    assert stored_files and not any(b"hush" in path.read_bytes() for path in stored_files)


async def test_reloading_the_project_rereads_an_address(
    project: Path, storage: Storage, open_app: Callable[..., Any]
) -> None:
    async with open_app(project) as screen:
        await screen.until("not read")
        await screen.press("down", "enter")
        await screen.until(" off ")
        storage.rows = ROWS[:1]
        await screen.press("f5")
        await screen.until_gone(" off ")
        await screen.until(" on ")

        assert list_labels(screen) == ["stored", FAR, "on"]


async def test_the_screen_stays_usable_while_an_address_is_read(
    project: Path, storage: Storage, open_app: Callable[..., Any]
) -> None:
    (project / "near.jsonl").write_text(json.dumps({**ROWS[0], "eval_id": "here"}))
    write_settings(project, f"{storage.address}?token=hush", "near.jsonl")
    storage.is_open.clear()
    async with open_app(project) as screen:
        await screen.until("not read")
        screen.state.browser.set_cursor(list_labels(screen).index(FAR))
        await screen.press("enter")
        await screen.until("reading")
        screen.state.browser.set_cursor(list_labels(screen).index("here"))
        screen.app.screen._show_cursor_row()
        await screen.press("2")
        await screen.until("set_light")
        assert "reading" in screen.text

        storage.is_open.set()
        await screen.until(" off ")


async def test_an_address_and_a_file_of_the_same_name_are_listed_separately(
    project: Path, storage: Storage, open_app: Callable[..., Any]
) -> None:
    (project / "rows.jsonl").write_text(json.dumps({**ROWS[0], "eval_id": "here"}))
    write_settings(project, f"{storage.address}?token=hush", "rows.jsonl")
    async with open_app(project) as screen:
        await screen.until("not read", "here")

        assert sorted(list_labels(screen)) == ["here", FAR, "rows.jsonl", "stored"]


async def test_opening_an_address_twice_fetches_it_once_with_a_message(
    project: Path, storage: Storage, open_app: Callable[..., Any]
) -> None:
    storage.is_open.clear()
    async with open_app(project) as screen:
        await screen.until("not read")
        await screen.press("down", "enter")
        await screen.until(" fetching ", "fetching its rows …")
        await screen.press("enter")
        await screen.until("fetching its rows")

        storage.is_open.set()
        await screen.until(" on ", " off ")
        assert storage.request_count == 1


async def test_an_unreadable_address_is_reported_in_one_sentence(
    project: Path, storage: Storage, open_app: Callable[..., Any]
) -> None:
    write_settings(project, f"{storage.address}?token=wrong")
    async with open_app(project) as screen:
        await screen.until("not read")
        await screen.press("down", "enter")
        await screen.until("broken", "this dataset could not be read", "there is no such file")
        await screen.press("exclamation_mark")
        await screen.until("cannot read it: there is no such file")
        await screen.press("R")
        await screen.until(f"{storage.address}: cannot read it")

        assert "wrong" not in screen.text


async def test_a_watch_does_not_fetch_addresses(project: Path, storage: Storage, open_app: Callable[..., Any]) -> None:
    (project / "near.jsonl").write_text(json.dumps({**ROWS[0], "eval_id": "here"}))
    write_settings(project, f"{storage.address}?token=hush", "near.jsonl")
    async with open_app(project) as screen:
        await screen.until("not read", "here")
        await screen.press("w")
        await screen.until("watching")
        (project / "near.jsonl").write_text(json.dumps({**ROWS[1], "eval_id": "here"}))
        await screen.until("✗ here", "remote")

        assert storage.request_count == 0


async def test_an_address_removed_from_the_settings_while_it_is_read_disappears(
    project: Path, storage: Storage, open_app: Callable[..., Any]
) -> None:
    storage.is_open.clear()
    async with open_app(project) as screen:
        await screen.until("not read")
        await screen.press("down", "enter")
        await screen.until("reading")
        (project / "workbench.toml").write_text("")
        (project / "near.evalset.json").write_text('{"eval_set_id": "near", "eval_cases": []}')
        await screen.press("f5")
        await screen.until("▾ near")
        assert FAR not in list_labels(screen)

        storage.is_open.set()
        (project / "far.evalset.json").write_text('{"eval_set_id": "far", "eval_cases": []}')
        await screen.press("f5")
        await screen.until("▾ far")

        assert FAR not in list_labels(screen)


async def test_an_address_removed_from_the_settings_does_not_affect_the_others(
    project: Path, storage: Storage, open_app: Callable[..., Any]
) -> None:
    address, removed, last_address = (storage.address.replace("rows", name) for name in ("rows", "gone", "last"))
    write_settings(project, f"{address}?token=hush", removed, last_address)
    async with open_app(project) as screen:
        await screen.until("not read")
        storage.is_open.clear()
        await screen.press("R")
        await screen.until("reading")
        write_settings(project, f"{address}?token=hush", last_address)
        await screen.press("f5")
        await screen.until_gone("gone.jsonl")
        storage.is_open.set()
        await screen.until(" on ", " off ", "broken")

        assert list_labels(screen) == ["stored", FAR, "on", "off", "http://…/last.jsonl"]


@pytest.mark.parametrize("presses", [2, 3])
async def test_repeated_reloads_of_an_address_keep_its_rows(
    presses: int, project: Path, storage: Storage, open_app: Callable[..., Any]
) -> None:
    async with open_app(project) as screen:
        await screen.until("not read")
        await screen.press("down", "enter")
        await screen.until(" off ")
        storage.is_open.clear()
        storage.rows = ROWS[:1]
        await screen.press("f5")
        await screen.until("reading")
        await screen.press(*["f5"] * (presses - 1))
        storage.is_open.set()
        await screen.until_gone(" off ")
        await screen.until(" on ")

        assert list_labels(screen) == ["stored", FAR, "on"]
