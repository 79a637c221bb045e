"""The package that `adk web`, `adk run`, `adk eval` and the workbench import."""

from . import agent as agent
