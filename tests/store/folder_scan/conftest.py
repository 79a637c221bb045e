"""A project on disk, built file by file."""

from tests.store.project_folder import folder, is_agent

__all__ = ["folder", "is_agent"]
