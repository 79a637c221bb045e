"""Every key of the application, by the id under which `[keys]` in the settings can change it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from textual.binding import Binding, BindingType
from textual.keys import Keys

from workbench.model.text import did_you_mean
from workbench.tui.state.pieces import safe_line

Where = Literal["list", "pane", "screen", "app"]

_MODIFIERS = frozenset({"ctrl", "alt", "shift", "super", "meta", "hyper"})
_PUNCTUATION = {
    " ": "space", "?": "question_mark", "/": "slash", ".": "full_stop", ",": "comma", ":": "colon", ";": "semicolon",
    "-": "minus", "+": "plus", "*": "asterisk", "=": "equals_sign", "[": "left_square_bracket",
    "]": "right_square_bracket", "<": "less_than_sign", ">": "greater_than_sign", "!": "exclamation_mark",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class KeyAction:
    """Something a key does.

    `keys` are separated by commas. `description` is as short as the footer needs it, and stands there where `footer`
    says so; `explanation` is for help and palette.
    """

    id: str
    where: Where
    keys: str
    action: str
    description: str
    footer: bool = False
    priority: bool = False
    explanation: str = ""

    @property
    def help(self) -> str:
        """What it does, for those who have room to read it."""
        return self.explanation or self.description


KEY_ACTIONS = (
    KeyAction(
        "run_case",
        "screen",
        "r",
        "run_selected",
        "run",
        footer=True,
        explanation="run the selected case, or what is listed of the selected eval set or agent",
    ),
    KeyAction("run_all", "screen", "R", "run_all", "all", footer=True, explanation="run every case, listed or not"),
    KeyAction(
        "run_failed", "screen", "f", "run_failed", "failed", footer=True, explanation="run the cases that did not pass"
    ),
    KeyAction(
        "cancel_run",
        "screen",
        "x,escape",
        "cancel_run",
        "stop",
        footer=True,
        explanation="stop the run; what has finished stays",
    ),
    KeyAction(
        "next_failing",
        "screen",
        "n",
        "next_failing",
        "next",
        footer=True,
        explanation="go to the next case that did not pass",
    ),
    KeyAction(
        "previous_failing",
        "screen",
        "p",
        "previous_failing",
        "previous",
        explanation="go to the previous case that did not pass",
    ),
    KeyAction(
        "filter",
        "screen",
        "slash",
        "filter",
        "filter",
        footer=True,
        explanation="list only cases with a text in their id",
    ),
    KeyAction("reload", "screen", "f5", "reload", "look for changed eval sets"),
    KeyAction("next_pane", "screen", "tab", "app.focus_next", "other pane"),
    KeyAction("previous_pane", "screen", "shift+tab", "app.focus_previous", "other pane, backwards"),
    KeyAction("help", "app", "question_mark", "help", "help", footer=True),
    KeyAction("quit", "app", "q", "quit", "quit", footer=True),
    KeyAction("suspend", "app", "ctrl+z", "suspend_process", "back to the shell; fg returns"),
    KeyAction("palette", "app", "ctrl+p", "command_palette", "palette", footer=True, priority=True),
    KeyAction("list_up", "list", "up,k", "move(-1)", "up"),
    KeyAction("list_down", "list", "down,j", "move(1)", "down"),
    KeyAction("list_page_up", "list", "pageup,ctrl+u", "page(-1)", "page up"),
    KeyAction("list_page_down", "list", "pagedown,ctrl+d", "page(1)", "page down"),
    KeyAction("list_first", "list", "g,home", "first", "first row"),
    KeyAction("list_last", "list", "G,end", "last", "last row"),
    KeyAction("list_fold", "list", "left,h", "fold", "fold, or go up"),
    KeyAction("list_unfold", "list", "right,l", "unfold", "unfold, or go in"),
    KeyAction("list_toggle", "list", "space", "toggle_fold", "fold or unfold"),
    KeyAction("list_enter", "list", "enter", "enter", "read the case"),
    KeyAction("pane_up", "pane", "up,k", "scroll_up", "scroll up"),
    KeyAction("pane_down", "pane", "down,j", "scroll_down", "scroll down"),
    KeyAction("pane_page_up", "pane", "pageup,ctrl+u", "page_up", "page up"),
    KeyAction("pane_page_down", "pane", "pagedown,ctrl+d,space", "page_down", "page down"),
    KeyAction("pane_first", "pane", "g,home", "scroll_home", "to the top"),
    KeyAction("pane_last", "pane", "G,end", "scroll_end", "to the end"),
    KeyAction("pane_leave", "pane", "left,h", "app.focus_previous", "back to the eval sets"),
)
"""Everything that a key does."""


def bindings(where: Where) -> list[BindingType]:
    """The bindings of one place."""
    return [
        Binding(item.keys, item.action, item.description, show=item.footer, priority=item.priority, id=item.id)
        for item in KEY_ACTIONS
        if item.where == where
    ]


def check_keys(wanted: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """The `[keys]` of the settings that can be used, and a sentence for each that cannot.

    An id that nobody knows, a key that does not exist, and a key that another action of the same place already has
    are refused; Textual itself would ignore the first two and let the third silently displace the other action.
    """
    usable: dict[str, str] = {}
    problems: list[str] = []
    known = {item.id: item for item in KEY_ACTIONS}
    for action_id, keys in wanted.items():
        if action_id not in known:
            problems.append(f"[keys] {safe_line(action_id)}: no such action{did_you_mean(action_id, known)}")
            continue
        unknown = [key for key in _split(keys) if not _is_key(key)]
        if unknown or not keys.strip():
            problems.append(f"[keys] {action_id}: {safe_line(', '.join(unknown)) or 'nothing'} is no key")
            continue
        usable[action_id] = ",".join(_split(keys))
    for action_id, other, key in list(_clashes(usable)):
        if usable.pop(action_id, None) is not None:
            problems.append(f"[keys] {action_id}: {key} is already the key of {other}; it keeps its own")
    return usable, problems


def keys_of(item: KeyAction, keymap: Mapping[str, str]) -> str:
    """The keys of an action as people write them."""
    return ", ".join(_shown(key) for key in _split(keymap.get(item.id, item.keys)))


def _clashes(changed: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    for item in KEY_ACTIONS:
        if item.id not in changed:
            continue
        for other in KEY_ACTIONS:
            if other is item or not _meet(item.where, other.where):
                continue
            taken = {_name(key) for key in _split(changed.get(other.id, other.keys))}
            for key in _split(changed[item.id]):
                if _name(key) in taken:
                    yield item.id, other.id, key


def _meet(one: Where, other: Where) -> bool:
    """Whether keys of both places are heard at the same time."""
    return {one, other} != {"list", "pane"}


def _split(keys: str) -> list[str]:
    """Keys separated by commas; a lone comma is the key itself."""
    if keys.strip() == ",":
        return ["comma"]
    return [key if key == " " else key.strip() for key in keys.split(",") if key]


def _is_key(key: str) -> bool:
    *modifiers, last = key.split("+") if len(key) > 1 else [key]
    named = {member.value for member in Keys} | set(_PUNCTUATION.values())
    return _MODIFIERS.issuperset(modifiers) and (len(last) == 1 or last in named or key in named)


def _name(key: str) -> str:
    return _PUNCTUATION.get(key, key)


def _shown(key: str) -> str:
    written = {name: character for character, name in _PUNCTUATION.items() if character != " "}
    return written.get(key, key)
