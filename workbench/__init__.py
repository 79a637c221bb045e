"""workbench: test AI agents against eval sets, in a terminal or headless."""

__version__ = "0.1.0"
