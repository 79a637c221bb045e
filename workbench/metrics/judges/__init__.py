"""Metrics with a judge model: prompts, parsing of replies, and the scores of several samples."""
