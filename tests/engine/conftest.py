"""A project with a function agent for each test."""

from tests.engine.project import project

__all__ = ["project"]
