"""History: every run of a project with its results, in `.workbench/history.db`."""
