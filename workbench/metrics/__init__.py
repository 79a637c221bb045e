"""Scores: one module for each family of metrics, the registry of all metrics, and `judge_case`.

A metric reads finished turns and computes scores. The engine runs the agent, stores results and decides on the case.
A helper process compares texts (`text_worker`); custom metric functions run in the worker of the target.
"""
