"""Every key of the application. Each place (a pane, a list, a dialog) has a module of its own."""

from workbench.tui.keys.actions import KeyAction, KeyPlace
from workbench.tui.keys.registry import KEY_ACTIONS, PLACES, bindings, check_keys, dialog_bindings, keys_of

__all__ = ["KEY_ACTIONS", "PLACES", "KeyAction", "KeyPlace", "bindings", "check_keys", "dialog_bindings", "keys_of"]
