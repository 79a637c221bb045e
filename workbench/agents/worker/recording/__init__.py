"""What a case depends on: recorded while it runs in the worker, compared later by the engine.

The one part of the worker that the engine imports too, so that both compute the same fingerprints. Standard library
only, Python 3.10 syntax, relative imports.
"""
