"""The worker: the process in which agents, their tools and custom metrics run.

It runs under the target's interpreter, so it uses only the standard library and Python 3.10 syntax, and imports nothing
else of `workbench`. It is loaded under the name `_workbench_worker` (see `launch`), so its imports are relative.
"""
