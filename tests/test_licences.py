"""No dependency is copyleft by accident."""

from __future__ import annotations

import pytest

from tests.licences import find_dependencies, find_problems, is_allowed, list_extras


def test_no_dependency_is_copyleft() -> None:
    packages = find_dependencies(list_extras())

    assert {"pydantic", "textual", "markupsafe"} <= packages.keys()  # the last is a dependency of a dependency
    assert list(find_problems(packages)) == []


@pytest.mark.parametrize(
    ("licence", "allowed"),
    [
        ("MIT", True),
        ("MPL-2.0 AND (Apache-2.0 OR MIT)", True),
        ("Apache-2.0 OR GPL-2.0-only", True),
        ("BSD License; GNU Lesser General Public License v3 (LGPLv3)", False),
        ("MIT AND LGPL-2.1-or-later", False),
        ("AGPL-3.0", False),
        ("", False),
        ("Proprietary", False),
    ],
)
def test_licences_are_told_apart(licence: str, allowed: bool) -> None:
    assert is_allowed(licence) is allowed
