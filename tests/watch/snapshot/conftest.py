"""A case with one verdict, and the files that it depends on."""

from tests.watch.selector.test_selection import case

__all__ = ["case"]
