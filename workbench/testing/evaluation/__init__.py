"""Evaluation tasks: a dataset, what answers its prompts, and metrics; the names are those of the Vertex AI SDK.

Callables run in the caller's process (see `host`); everything else is done by the engine.
"""
