"""Metrics that have a model judge: what it is asked, how its replies are read, and how samples become scores."""
