"""The browser of `tests.browser`."""

from tests.browser import browser_address, browser_page  # noqa: F401 - fixtures
