"""The browser: targets, their eval sets and their cases as one flat list of rows, some of them folded away.

A list of plain rows instead of a tree of widgets: folding, moving and filtering cost the same for ten cases and for
ten thousand, and only the rows on the screen are ever drawn.
"""

from workbench.tui.state.browser.browser import Browser
from workbench.tui.state.browser.content import CaseContent
from workbench.tui.state.browser.listed import ListedSet, Place, Row, RowKind, case_row
from workbench.tui.state.browser.order import Order
from workbench.tui.state.browser.query import Query

__all__ = ["Browser", "CaseContent", "ListedSet", "Order", "Place", "Query", "Row", "RowKind", "case_row"]
