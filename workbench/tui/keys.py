"""Key bindings of widgets, validation of `[keys]` in the settings, and display names of keys."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from textual.binding import Binding, BindingType
from textual.keys import Keys

from workbench.model.text import suggest_name
from workbench.tui.key_table import KEY_ACTIONS, PLACES, KeyAction
from workbench.tui.state.text_layout import safe_line

_HEARD_IN_DIALOGS = frozenset({"help", "palette"})
_MODIFIERS = frozenset({"ctrl", "alt", "shift", "super", "meta", "hyper"})
_PUNCTUATION = {
    " ": "space", "?": "question_mark", "/": "slash", ".": "full_stop", ",": "comma", ":": "colon", ";": "semicolon",
    "-": "minus", "+": "plus", "*": "asterisk", "=": "equals_sign", "[": "left_square_bracket",
    "]": "right_square_bracket", "<": "less_than_sign", ">": "greater_than_sign", "!": "exclamation_mark",
}  # fmt: skip
_BY_ID = {item.id: item for item in KEY_ACTIONS}


def bindings(*where: str) -> Sequence[BindingType]:
    """Return the bindings of one or more places."""
    return [_binding(item) for name in where for item in PLACES[name].actions]


def dialog_bindings(where: str) -> Sequence[BindingType]:
    """Return the bindings of a dialog and of help. Other keys of the application do not work in a dialog."""
    return [*bindings(where), _binding(key_action("help"))]


def key_action(action_id: str) -> KeyAction:
    """Return the action with this id. Raise KeyError if the id is unknown."""
    return _BY_ID[action_id]


def check_keys(wanted: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Return the valid entries of `[keys]` in the settings, and an error message for each invalid one, both by action.

    Unknown actions, unknown keys, and keys of another action in the same place are invalid. Textual would ignore the
    first two. The third would silently replace the other action.
    """
    usable: dict[str, str] = {}
    problems: dict[str, str] = {}
    for action_id, keys in wanted.items():
        if action_id not in _BY_ID:
            problems[action_id] = f"[keys] {safe_line(action_id)}: no such action{suggest_name(action_id, _BY_ID)}"
            continue
        unknown = [key for key in _split(keys) if not _is_key(key)]
        if unknown or not keys.strip():
            problems[action_id] = f"[keys] {action_id}: {safe_line(', '.join(unknown)) or 'nothing'} is no key"
            continue
        usable[action_id] = ",".join(_split(keys))
    for action_id, other, key in list(_clashes(usable)):
        if usable.pop(action_id, None) is not None:
            problems[action_id] = f"[keys] {action_id}: {key} is already the key of {other}; it keeps its own"
    return usable, problems


def keys_of(item: KeyAction, keymap: Mapping[str, str]) -> str:
    """Return the keys of an action as the user writes them."""
    return ", ".join(_shown(key) for key in _split(keymap.get(item.id, item.keys)))


def _binding(item: KeyAction) -> Binding:
    return Binding(item.keys, item.action, item.description, show=item.footer, priority=item.priority, id=item.id)


def _clashes(changed: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    for item in KEY_ACTIONS:
        if item.id not in changed:
            continue
        for other in KEY_ACTIONS:
            if other is item or item.yields or other.yields or not _meet(item, other):
                continue
            taken = {_name(key) for key in _split(changed.get(other.id, other.keys))}
            for key in _split(changed[item.id]):
                if _name(key) in taken:
                    yield item.id, other.id, key


def _meet(item: KeyAction, another: KeyAction) -> bool:
    """Return True if the keys of both actions can be active at the same time."""
    one, other = item.where, another.where
    if one == other or _HEARD_IN_DIALOGS.intersection((item.id, another.id)):
        return True
    if "app" in (one, other):
        return not PLACES[other if one == "app" else one].is_modal
    for name, around in ((one, other), (other, one)):
        if around == "screen":
            return not PLACES[name].is_modal
        if around in PLACES[name].made_of:
            return True
    return False


def _split(keys: str) -> list[str]:
    """Split keys at commas; a lone comma is the comma key."""
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
