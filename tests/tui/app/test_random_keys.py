"""Random keys at random speed, in every pane and dialog: no input may end the application.

WORKBENCH_RANDOM_KEYS sets the number of keys, WORKBENCH_RANDOM_SEED the seed. Keys reach the application as a terminal
sends them: the next key does not wait until the last one is handled. Random keys seldom reach some screens. The test
opens these directly, and reopens them after a number of keys.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from textual import events
from textual.app import App
from textual.screen import Screen

from tests.engine.judged import serve_judge
from tests.llm.servers import gemini
from workbench.tui.app import WorkbenchApp
from workbench.tui.dialogs.dialogs import ConfirmScreen, HelpScreen
from workbench.tui.keys import KEY_ACTIONS

KEYS = int(os.environ.get("WORKBENCH_RANDOM_KEYS", "250"))
SEED = int(os.environ.get("WORKBENCH_RANDOM_SEED", "1"))
DRAWS_EACH_CHANGE = True  # also what the screen shows between two keys
_SESSION = 200  # keys until the application is reopened
_MOST_SECONDS = 60.0  # time limit for handling all keys

AGENT = """
import time

PROMPT = "Be nice.\\n\\nBe brief."

def answer(prompt):
    if "slow" in prompt:
        time.sleep(0.2)
    if "raise" in prompt:
        raise ValueError(prompt)
    return {"response": prompt, "predicted_trajectory": [{"tool_name": "ping", "tool_input": {"n": 1}}]}
"""

# Keys that open dialogs and panes are pressed more often than chance would press them.
DOORS: Sequence[Sequence[str]] = (
    *(
        [key]
        for key in ("c", "C", "t", "v", "question_mark", "ctrl+p", "N", "ctrl+n", "i", "d", "m", "D", "R", "r", "f")
    ),
    *([key] for key in ("w", "alt+w", "x", "X", "alt+x", "o", "O", "!", "f5", "u", "ctrl+s", "z", "J", "K", "space")),
    *([str(tab)] for tab in range(1, 7)),
    *(["c", key] for key in ("p", "slash", "enter", "plus", "k", "r")),
    *(["e", "j", "j", key] for key in ("enter", "plus", "d", "D")),
    *(["2", "tab", key] for key in ("a", "A", "W", "l", "enter")),
    *(["3", "tab", key] for key in ("slash", "d", "m", "enter")),
    *(["5", "tab", key] for key in ("m", "=", "enter", "J")),
    *(["6", "tab", key] for key in ("enter", "ctrl+o", "f2", "a")),
    *(["t", key] for key in ("slash", "c", "s", "x", "enter")),
    *([key] for key in ("alt+n", "alt+g", "alt+s", "alt+k", "alt+r", "alt+y", "slash", "q")),
)
_AVOIDED = {"ctrl+z", "ctrl+q", "ctrl+c"}
ALL_KEYS = sorted(
    {key.strip() for item in KEY_ACTIONS for key in item.keys.split(",") if key.strip()}
    | {"up", "down", "left", "right", "home", "end", "pageup", "pagedown", "tab", "shift+tab", "backspace", "delete"}
    | set("abcxyz019.{}[]\"'字")
)


def generate_keys(chance: random.Random) -> Iterator[str]:
    """Yield keys without end; many are fast repeats of the same key."""
    usual = [key for key in ALL_KEYS if key not in _AVOIDED]
    while True:
        kind = chance.random()
        if kind < 0.35:
            yield from chance.choice(DOORS)
        elif kind < 0.6:
            yield from ["escape"] * chance.randint(1, 3)
        elif kind < 0.7:
            yield from ["enter"] * chance.randint(1, 2)
        else:
            yield chance.choice(usual)


def send_key(app: App[Any], key: str) -> None:
    """Send a key as the terminal does: the application handles it in its turn."""
    character = key if len(key) == 1 else None
    event = events.Key({"!": "exclamation_mark", "=": "equals_sign"}.get(key, key), character)
    event.set_sender(app)
    assert app._driver is not None
    app._driver.send_message(event)


@pytest.fixture
def project(make_project: Callable[..., Path], make: Any) -> Path:
    """Create a project with one scenario and an agent that passes, fails, raises and is slow."""
    prompts = {"passes": "hello", "errs": "raise", "slow": "slow please"}
    cases = [
        {"eval_id": name, "conversation": [make.turn(text, text, ("ping", {"n": 1}))]} for name, text in prompts.items()
    ]
    cases.append({"eval_id": "fails", "conversation": [make.turn("hi", "ho", ("pong", {})), make.turn("2", "2")]})
    scenario = {"starting_prompt": "hi", "conversation_plan": "say bye"}
    more_cases = [
        {"eval_id": "played", "conversation_scenario": scenario},
        {"eval_id": "x", "conversation": [make.turn("a", "a")]},
    ]
    path = make_project(agent=AGENT, lights=cases, other=more_cases)
    with (path / "workbench.toml").open("a") as settings:
        settings.write('[run]\nconfirm = "never"\n')
    return path


@pytest.fixture(autouse=True)
def quiet_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Call no model and open no editor."""
    for name in ("GOOGLE_API_KEY", "GEMINI_API_KEY", "VISUAL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("EDITOR", "true")


async def test_random_keys_never_end_the_application(project: Path, open_app: Callable[..., Any]) -> None:
    chance = random.Random(SEED)
    keys = generate_keys(chance)
    pressed_keys: list[str] = []
    try:
        while len(pressed_keys) < KEYS:
            await _press_in_one_session(project, open_app, chance, keys, pressed_keys)
    except BaseException:
        sys.stderr.write(
            f"after {len(pressed_keys)} keys, seed {SEED}; the last ones: {' '.join(pressed_keys[-60:])}\n"
        )
        raise


async def _press_in_one_session(
    project: Path, open_app: Callable[..., Any], chance: random.Random, keys: Iterator[str], pressed_keys: list[str]
) -> None:
    async with open_app(project, size=chance.choice([(140, 42), (80, 24), (40, 10)])) as screen:
        await screen.pilot.pause()
        for _ in range(min(_SESSION, KEYS - len(pressed_keys))):
            key = next(keys)
            pressed_keys.append(key)
            send_key(screen.app, key)
            if chance.random() < 0.3:
                await asyncio.sleep(chance.choice([0, 0, 0.001, 0.01, 0.05]))
            if screen.app._exit or screen.app.fault is not None:
                return
        await asyncio.wait_for(screen.pilot.pause(), _MOST_SECONDS)  # until every key has been handled


SHARE = KEYS // 5  # of each of the screens below
_VISIT = 50  # keys until such a screen is reopened
_KEYS_ELSEWHERE = 10  # keys for other screens after it was closed
CRASH = """
import os, sys
from pathlib import Path
from workbench.engine.open_documents import OpenDocuments
documents = OpenDocuments(Path(sys.argv[1]))
for name in ("lights", "other"):
    case = {"eval_id": "rescued", "conversation": []}
    documents.edit(f"{name}.evalset.json", lambda document: document.insert_case(0, case), label="x")
documents.write_recovery_files()
os._exit(9)
"""
SCENARIOS = [{"starting_prompt": f"Lamp {n} [b]!", "conversation_plan": f"You want lamp {n} on."} for n in range(3)]


def _crash(project: Path) -> None:
    assert subprocess.run([sys.executable, "-c", CRASH, str(project)], check=False).returncode == 9


async def _open_conflict(screen: Any, project: Path) -> None:
    """Open the conflict screen: another program adds a case to a set with an unsaved case."""
    await screen.until("passes")
    await screen.press("g", "j")
    lights = project / "lights.evalset.json"
    mine = {"eval_id": "mine", "conversation": []}
    await screen.app._backend.edit(
        lambda workspace: workspace.documents.edit(
            lights.name, lambda document: document.insert_case(0, mine), label="x"
        )
    )
    data = json.loads(lights.read_text())
    data["eval_cases"].append({"eval_id": "theirs", "conversation": []})
    lights.write_text(json.dumps(data))
    await screen.press("ctrl+s")
    await screen.until("added by another program: theirs")


async def _open_recovery(screen: Any, project: Path) -> None:
    """Open the recovery screen: a crashed session left unsaved edits."""
    await screen.until("ended with unsaved edits")


async def _open_versions(screen: Any, project: Path) -> None:
    await _open_recovery(screen, project)
    await screen.press("d")
    await screen.until("the unsaved edits and the file on disk")


async def _open_scenarios(screen: Any, project: Path) -> None:
    """Open the scenarios screen with scenarios from a model."""
    await screen.until("passes")
    await screen.press("g", "j", "alt+g")
    await screen.until("How many scenarios")
    await screen.press("enter")
    await screen.until("Topic of the scenarios")
    await screen.press("x", "enter")
    await screen.until("3 of 3 scenarios kept")


async def _open_why(screen: Any, project: Path) -> None:
    """Open the search in the instruction, which runs meanwhile."""
    await screen.until("passes")
    await screen.press("g", "j", "j", "alt+y")
    await screen.until("2 paragraphs")


OPENERS = {
    "conflict": _open_conflict,
    "recovery": _open_recovery,
    "versions": _open_versions,
    "scenarios": _open_scenarios,
    "why": _open_why,
}


@pytest.mark.parametrize("place", OPENERS)
async def test_random_keys_never_end_the_application_on_a_rare_screen(
    place: str, project: Path, open_app: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(WorkbenchApp, "suspend", lambda app: nullcontext())  # for the editor, which a test cannot open
    chance = random.Random(f"{place} {SEED}")
    key_counts: Counter[str] = Counter()
    pressed_keys: list[str] = []
    if place in ("recovery", "versions"):
        _crash(project)
    files = {path: path.read_bytes() for path in project.rglob("*") if path.is_file()}
    with serve_judge(monkeypatch, lambda _: gemini(json.dumps({"scenarios": SCENARIOS}))):
        while len(pressed_keys) < SHARE:
            shutil.rmtree(project / ".workbench", ignore_errors=True)  # also resets the saved cursor position
            for path, content in files.items():
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
            try:
                async with open_app(project, size=chance.choice([(140, 42), (80, 24)])) as screen:
                    await OPENERS[place](screen, project)
                    await _press_there(
                        screen, place, chance, min(_VISIT, SHARE - len(pressed_keys)), pressed_keys, key_counts
                    )
            except BaseException:
                sys.stderr.write(
                    f"{place}: {len(pressed_keys)} keys, seed {SEED}; {' '.join(pressed_keys[-_VISIT:])}\n"
                )
                raise
    sys.stderr.write(f"{place}: keys heard by {dict(key_counts)}\n")
    assert key_counts[place]


async def _press_there(
    screen: Any, place: str, chance: random.Random, count: int, pressed_keys: list[str], key_counts: Counter[str]
) -> None:
    """Press many keys that the screen binds, and some that it does not."""
    bound_keys = [key.strip() for item in KEY_ACTIONS if item.where == place for key in item.keys.split(",")]
    moves = ["up", "down", "left", "right", "home", "end", "pageup", "pagedown", "tab", "shift+tab", "enter"]
    rest = [key for key in ALL_KEYS if key not in _AVOIDED]
    keys_elsewhere = 0
    for _ in range(count):
        key = chance.choice(chance.choices((bound_keys, moves, rest), weights=(2, 4, 2))[0])
        pressed_keys.append(key)
        key_counts[_get_place(screen.app.screen)] += 1
        keys_elsewhere = (
            0
            if any(_get_place(screen_below) == place for screen_below in screen.app.screen_stack)
            else keys_elsewhere + 1
        )
        send_key(screen.app, key)
        if chance.random() < 0.5:
            await asyncio.sleep(chance.choice([0, 0, 0.001, 0.01, 0.05]))
        if screen.app._exit or screen.app.fault is not None:
            return
        if keys_elsewhere > _KEYS_ELSEWHERE:
            break
    await asyncio.wait_for(screen.pilot.pause(), _MOST_SECONDS)


def _get_place(screen: Screen[Any]) -> str:
    places: Sequence[str] = getattr(screen, "PLACES", ())
    return places[0] if places else type(screen).__name__


async def test_a_dialog_closed_twice_quickly_closes_once(project: Path, open_app: Callable[..., Any]) -> None:
    async with open_app(project) as screen:
        await screen.until("passes")
        await screen.press("j", "j")

        for _ in range(3):
            for key in ("c", "escape", "escape"):
                send_key(screen.app, key)
                await asyncio.sleep(0.01)
        await screen.press("j", "c")  # the last dialog may have opened after both escapes
        await screen.until("criteria of")
        send_key(screen.app, "escape")
        send_key(screen.app, "escape")
        await screen.until_gone("criteria of")

        assert len(screen.app.screen_stack) == 1


async def test_a_command_for_a_closed_dialog_does_nothing(project: Path, open_app: Callable[..., Any]) -> None:
    async with open_app(project) as screen:
        await screen.until("passes")
        await screen.press("j", "j", "c")
        await screen.until("response_match_score")
        actions = list(screen.app.find_actions(screen.app.screen))
        await screen.press("escape")
        await screen.until_gone("response_match_score")

        for item, owner in actions:
            owner.call_next(screen.app.run_action, item.action, owner)
        await screen.pilot.pause()

        assert screen.app.fault is None


async def test_a_dialog_may_open_while_the_application_ends(project: Path, open_app: Callable[..., Any]) -> None:
    async with open_app(project) as screen:
        await screen.until("passes")
        screen.app.push_screen(HelpScreen([], [], keymap={}))
        screen.app.exit()
        await asyncio.sleep(0.1)

    assert screen.app.fault is None


async def test_a_dialog_dismissed_below_another_closes_after_the_upper_one(
    project: Path, open_app: Callable[..., Any]
) -> None:
    async with open_app(project) as screen:
        await screen.until("passes")
        answers: list[bool | None] = []
        lower_dialog = ConfirmScreen("Below?")
        await screen.app.push_screen(lower_dialog, answers.append)
        await screen.press("question_mark")
        await screen.until("What the symbols mean")

        lower_dialog.dismiss(True)
        lower_dialog.dismiss(False)
        await screen.until("What the symbols mean")
        await screen.press("escape")

        await screen.until_gone("Below?")
        assert answers == [True]
