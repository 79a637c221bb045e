"""Adapters: one module for each kind of agent, named after the kind, with a class `Adapter`. They run in the worker."""
