"""Comparing texts, in a process of its own.

The libraries of the field cost more to import than most runs take, so neither the engine nor a front end ever imports
them: `workbench.metrics.text_worker` starts `process` by its path and talks to it in JSON lines.
"""
