"""A separate project for each test, because results are stored in the history of the working directory."""

from tests.testing.separate_project import project

__all__ = ["project"]
