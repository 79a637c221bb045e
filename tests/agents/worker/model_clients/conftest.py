"""A project whose agent asks a model on this machine."""

from tests.engine.project import project
from tests.engine.runner.recorded import case, server

__all__ = ["case", "project", "server"]
