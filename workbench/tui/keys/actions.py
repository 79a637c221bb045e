"""What a key does, and where it is heard."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class KeyAction:
    """Something a key does.

    `id` is the name under which `[keys]` in the settings can change it. `where` is the place whose widget has the
    focus when the key is heard. `keys` are separated by commas. `description` is as short as the footer needs it, and
    stands there where `footer` says so; `explanation` is for help and palette. An action that `yields` leaves its key
    to any other that is nearer to the focus.
    """

    id: str
    where: str
    keys: str
    action: str
    description: str
    footer: bool = False
    priority: bool = False
    explanation: str = ""
    yields: bool = False

    @property
    def help(self) -> str:
        """What it does, for those who have room to read it."""
        return self.explanation or self.description


@dataclass(frozen=True, slots=True)
class KeyPlace:
    """A part of the screen with keys of its own.

    `made_of` names the shared places whose keys are heard in it too. Where `is_modal`, it covers the main screen, whose
    keys are not heard meanwhile.
    """

    name: str
    title: str
    actions: tuple[KeyAction, ...]
    made_of: tuple[str, ...] = ("rows", "lines")
    is_modal: bool = False
