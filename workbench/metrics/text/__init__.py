"""Comparing texts: the side that asks. What is computed, and with which libraries, is in `text_helper`."""

from workbench.metrics.text.client import TextError, TextScorer

__all__ = ["TextError", "TextScorer"]
