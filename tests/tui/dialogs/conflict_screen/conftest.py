"""The project whose set other programs and an editor change."""

from tests.tui.edited_project import do, editor, lights, project

__all__ = ["do", "editor", "lights", "project"]
