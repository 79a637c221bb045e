"""The state of a project whose cases are listed, read and judged."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import pytest

from workbench.model.evalset import EvalCase
from workbench.model.results import CaseStatus
from workbench.tui.keys import find_first_key
from workbench.tui.state.browser_list import Hashes, ListedSet, index_case, make_case_row
from workbench.tui.state.project_state import ProjectState

SET = "sets/lights.evalset.json"


class ListedProject:
    """The state of a project with one set, filled by the test as the backend fills it."""

    def __init__(self, make: Any) -> None:
        self.state = ProjectState(partial(find_first_key, keymap={}))
        self.browser = self.state.browser
        self._make = make

    def key(self, eval_id: str) -> Any:
        return self._make.key(eval_id, eval_set=SET)

    def list_cases(self, *eval_ids: str) -> None:
        listed_set = ListedSet(SET, "home", tuple(make_case_row(self.key(eval_id)) for eval_id in eval_ids))
        self.browser.replace_sets(["home"], [ListedSet(SET, "home")])
        self.state.list_set(listed_set)

    def read(self, *cases: EvalCase, hashes: Hashes | None = None) -> None:
        self.browser.update_contents(index_case(self.key(case.eval_id), case, hashes) for case in cases)
        self.browser.refresh()

    def store(self, **statuses: CaseStatus) -> None:
        """Store results of earlier sessions that were judged by outdated criteria."""
        for eval_id, status in statuses.items():
            job = self._make.stored_job(self._make.result(self.key(eval_id), status))
            self.state.load_stored({self.key(eval_id): [job._replace(execution_key="e", scoring_key="old")]})

    @property
    def ids(self) -> list[str]:
        """Return the ids of the cases on the screen from top to bottom."""
        return [row.case.eval_id for row in self.browser.rows if row.case is not None]

    def select(self, eval_id: str) -> None:
        assert self.browser.select_case(self.key(eval_id))

    def list_marked_ids(self) -> list[str]:
        return [key.eval_id for key in self.browser.marks]


@pytest.fixture
def make_listed_project(make: Any) -> Callable[..., ListedProject]:
    def fill(eval_ids: Iterable[str]) -> ListedProject:
        project = ListedProject(make)
        project.list_cases(*eval_ids)
        return project

    return fill
