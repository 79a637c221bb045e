"""Simulated users and tools, and scenarios written by a model."""
