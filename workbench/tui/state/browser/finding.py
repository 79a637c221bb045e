"""Which cases a query means."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from workbench.model.keys import CaseKey
from workbench.tui.state.board import Board
from workbench.tui.state.browser.content import CaseContent
from workbench.tui.state.browser.freshness import Freshness
from workbench.tui.state.browser.listed import Row
from workbench.tui.state.browser.marks import Marks
from workbench.tui.state.browser.query import Query, Trait
from workbench.tui.state.standing import Standing

Test = Callable[[Row], bool]


@dataclass(frozen=True)
class Knowledge:
    """All that a query may ask about a case. `edited` are the ids of cases with unsaved edits, by eval set."""

    board: Board
    contents: Mapping[CaseKey, CaseContent]
    marks: Marks
    freshness: Freshness
    edited: Mapping[str, Collection[str]]

    def is_edited(self, row: Row) -> bool:
        """Whether a case has unsaved edits."""
        return row.case is not None and row.case.eval_id in self.edited.get(row.eval_set, ())

    def test_of(self, query: Query) -> Test | None:
        """What tells the cases that are meant from the others; None where all are."""
        if query.wants_all:
            return None
        if query.problems:
            return lambda row: False  # noqa: ARG005
        tests = [self._trait(trait) for trait in query.traits]
        if query.standings is not None:
            tests.append(self._standing(query.standings))
        if query.words or query.tools:
            tests.append(self._content(query))
        return tests[0] if len(tests) == 1 else lambda row: all(test(row) for test in tests)

    def _trait(self, trait: Trait) -> Test:
        if trait is Trait.DIRTY:
            return self.is_edited
        if trait is Trait.MARKED:
            return lambda row: row.case is not None and row.case in self.marks
        return lambda row: row.case is not None and self.freshness.is_stale(row.case)

    def _standing(self, wanted: frozenset[Standing]) -> Test:
        def test(row: Row) -> bool:
            record = None if row.case is None else self.board.record(row.case)
            return (Standing.NOT_RUN if record is None else record.standing) in wanted

        return test

    def _content(self, query: Query) -> Test:
        words, tools, contents = query.words, query.tools, self.contents

        def test(row: Row) -> bool:
            content = None if row.case is None else contents.get(row.case)
            if content is None:  # it has not been read yet, or cannot be: there is only its id
                label = row.label.casefold()
                return not tools and all(word in label for word in words)
            text = content.text
            for word in words:  # loops: this is done for ten thousand cases at every key press
                if word not in text:
                    return False
            return not tools or all(any(tool in name for name in content.tools) for tool in tools)

        return test
