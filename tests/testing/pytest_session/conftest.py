"""Projects with a function agent, tested by separate pytest processes."""

from tests.testing.pytest_project import empty_project, project

__all__ = ["empty_project", "project"]
