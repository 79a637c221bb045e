"""Events of the watch in words."""

from __future__ import annotations

from workbench.model.identity import DependencyKind
from workbench.watch.watch_events import name_kind


def test_every_kind_of_dependency_has_a_readable_name() -> None:
    names = {kind: (name_kind(kind), name_kind(kind, count=2)) for kind in DependencyKind}

    assert not [names for spellings in names.values() for name in spellings if "_" in name or "unknown" in name]
    assert name_kind("of_another_version", count=47) == "unknown dependencies"
