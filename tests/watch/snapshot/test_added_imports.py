"""Imports that are added to a module of a case: only those that do something make it run again."""

from __future__ import annotations

import pytest

from tests.watch.watched import Folder
from workbench.engine.plan import Plan, RunOptions, Selection
from workbench.engine.workspace import Workspace
from workbench.watch.selector import Action, decide_plan

pytestmark = pytest.mark.needs_fork

SOURCES = {
    "pack/__init__.py": '"""A package."""\n',
    "pack/agent.py": """
        import pack.used
        import pack.stars.user
        from pack import parts
        def answer(prompt):
            return pack.used.reply(prompt) + str(hasattr(parts, "sought"))
    """,
    "pack/used.py": '"""Used."""\nimport json\ndef reply(prompt): return prompt or other\n',
    "pack/pure.py": "from __future__ import annotations\nfrom . import deeper\ndef reply(): return 1\nOPEN = 2\n",
    "pack/deeper.py": "import pack.parts.plain\nVALUE = 1\n",
    "pack/loud.py": "print('imported')\n",
    "pack/indirect.py": "from pack import loud\n",
    "pack/circular.py": "from pack.used import reply\n",
    "pack/parts/__init__.py": "def clash(): return 1\n",
    "pack/parts/plain.py": "def open(): return 1\n",
    "pack/parts/clash.py": "",
    "pack/parts/sought.py": "",
    "pack/space/inside.py": "",
    "pack/stars/__init__.py": "from .all import *\n",
    "pack/stars/all.py": "",
    "pack/stars/user.py": "def reply(): return 1\n",
    "pack/stars/within.py": "",
    "other.py": "",
}  # fmt: skip


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Folder:
    """Make a project with a current verdict."""
    folder = Folder(tmp_path_factory.mktemp("project"))
    for name, text in SOURCES.items():
        folder.write(name, text)
    folder.write("workbench.toml", '[targets.t]\nkind = "function"\ntarget = "pack.agent:answer"\n')
    folder.cases(case="say")
    with Workspace.open(folder.root) as workspace:
        list(workspace.start(_plan(workspace)).iter_events())
    assert _decide(folder) is Action.NOTHING
    return folder


def _plan(workspace: Workspace) -> Plan:
    return workspace.plan([Selection(eval_set="set.evalset.json")], RunOptions(adk_results=False, retries=0))


def _decide(folder: Folder) -> Action:
    with Workspace.open(folder.root) as workspace:
        (decision,) = decide_plan(workspace, _plan(workspace))
        return decision.action


@pytest.mark.parametrize(
    ("line", "runs"),
    [
        ("import pack.pure", False),
        ("from pack.pure import reply as other_name, OPEN", False),
        ("from .parts import plain", False),
        ("from .parts.plain import open as opened", False),
        ("import pack.space.inside", False),
        ("from pack.pure import missing", True),
        ("import pack.missing", True),
        ("import pack.loud", True),
        ("import pack.indirect", True),
        ("import pack.circular", True),
        ("import colorsys", True),  # what it does is unknown
        ("import inside", True),  # not found there
        ("from pack.pure import *", True),
        ("from pack.pure import reply", True),  # replaces the function that is used
        ("from pack.parts.plain import open", True),  # replaces a builtin
        ("from pack.pure import OPEN as other", True),  # a function lacks this name
        ("import pack.parts.clash", True),  # replaces the function `clash` of its package
        ("import pack.stars.within", True),  # the package may have this name
        ("import pack.parts.sought", True),  # the case asks whether the package has this name
        ("import pack.pure\nprint('hi')", True),
    ],
)
def test_an_added_import_runs_a_case_again_only_if_it_may_do_something(project: Folder, line: str, runs: bool) -> None:
    path = project.root / "pack/used.py"
    before = path.read_text()
    path.write_text(before.replace("import json\n", f"import json\n{line}\n"))
    try:
        assert _decide(project) is (Action.RUN if runs else Action.NOTHING)
    finally:
        path.write_text(before)


def test_a_module_that_was_harmless_when_it_was_imported_is_watched(project: Folder) -> None:
    path, other = project.root / "pack/used.py", project.root / "pack/parts/plain.py"
    before, before_other = path.read_text(), other.read_text()
    path.write_text(f"import pack.pure\n{before}")
    try:
        assert _decide(project) is Action.NOTHING
        other.write_text(f"{before_other}print('imported')\n")
        assert _decide(project) is Action.RUN
        other.unlink()
        assert _decide(project) is Action.RUN
    finally:
        path.write_text(before)
        other.write_text(before_other)
