"""A project whose set is changed by other programs and an editor."""

from tests.tui.edited_project import actions, editor, lights, project

__all__ = ["actions", "editor", "lights", "project"]
