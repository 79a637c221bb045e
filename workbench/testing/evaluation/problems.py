"""What cannot be evaluated: a task that makes no sense, and cells of a result that stay empty, each with its reason."""

from __future__ import annotations

from typing import Literal, NamedTuple


class EvaluationError(ValueError):
    """A task cannot be evaluated as it is. The message is one sentence for each thing that is wrong."""


class Problem(NamedTuple):
    """Why a cell of a result is empty.

    `row` counts from 1 in the order of the dataset, as messages do everywhere: row 2 is `rows[1]` of the result, and
    `row_2` where rows have no ids. An ERROR is work that could not be done, UNDEFINED a value that
    does not exist, such as the precision of an agent that called no tool.
    """

    row: int
    column: str
    status: Literal["ERROR", "UNDEFINED"]
    reason: str
