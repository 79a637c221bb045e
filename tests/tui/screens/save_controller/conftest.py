"""A project whose set is changed by other programs and an editor."""

from tests.tui.edited_project import do, editor, lights, project

__all__ = ["do", "editor", "lights", "project"]
