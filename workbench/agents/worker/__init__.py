"""The worker: the process in which agents, their tools and custom metrics run.

Standard library only, Python 3.10 syntax, nothing else of ours: it runs under the interpreter of the target. It is
loaded under the name `_workbench_worker` (see `launch`), so inside it all imports are relative.
"""
