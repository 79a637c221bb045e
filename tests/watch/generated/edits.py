"""Random edits, of every kind that people and their tools make."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from . import code_edits, file_edits, module_edits, set_edits, surroundings_edits
from .packages import READ_AS_TEXT, TIMED, Package
from .scene import Scene

Maker = Callable[[Scene], str | None]
_DAMAGING = frozenset(
    (
        "function_deleted", "function_renamed", "module_deleted", "module_renamed", "package_renamed", "package_made",
        "data_deleted", "data_renamed", "env_deleted", "decorator", "library_removed", "database_gone",
        "file_for_folder", "stalled",
    )
)  # fmt: skip


@dataclass(frozen=True)
class Kind:
    """A kind of edit. A neutral one changes no result, except in files that agents read as text or check by time."""

    name: str
    make: Maker
    neutral: bool = False
    weight: float = 1.0


@dataclass(frozen=True)
class Edit:
    """An edit that was made; `neutral` if no result can have changed."""

    kind: str
    description: str
    neutral: bool
    paths: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.kind}: {self.description}"


def undo(scene: Scene) -> str | None:
    """Revert one of the last edits, mostly the very last one."""
    if not scene.changes:
        return None
    last = len(scene.changes) - 1
    index = last if scene.rng.random() < 0.6 else scene.rng.randint(max(0, last - 5), last)
    change = scene.changes[index]
    scene.restore(change.before)
    return f"{change.kind} taken back"


def mended(scene: Scene) -> str | None:
    """Restore what the last damaging edit removed or renamed."""
    if not scene.damaging_changes:
        return None
    change = scene.damaging_changes.pop()
    scene.restore(change.before)
    return f"{change.kind} taken back"


def checkout(scene: Scene) -> str | None:
    """Revert several of the last edits at once, as a switch of the branch does."""
    if len(scene.changes) < 3:
        return None
    count = scene.rng.randint(2, min(8, len(scene.changes)))
    before: dict[str, bytes | None] = {}
    for change in reversed(scene.changes[-count:]):
        before |= change.before
    scene.restore(before)
    return f"{count} edits taken back"


def several(scene: Scene) -> str | None:
    """Make several edits at the same time."""
    simple = [kind for kind in _list_possible_kinds(scene) if kind.make not in _NOT_COMBINED]
    descriptions = []
    for kind in scene.rng.sample(simple, scene.rng.randint(2, 6)):
        description = kind.make(scene)
        if description is not None:
            descriptions.append(f"{kind.name}: {description}")
    return "; ".join(descriptions) if descriptions else None


_NOT_COMBINED = (undo, mended, checkout, several, *surroundings_edits.RARE_EDITS)


def _list_kinds() -> dict[str, Kind]:
    kinds = [
        Kind("undo", undo, weight=2),
        Kind("mended", mended),
        Kind("checkout", checkout),
        Kind("several", several, weight=2),
    ]
    kinds += [Kind(make.__name__, make, weight=0.5) for make in surroundings_edits.RARE_EDITS]
    kinds += [Kind(make.__name__, make) for make in surroundings_edits.EDITS]
    for module, weight in ((code_edits, 1.5), (module_edits, 1.0), (file_edits, 1.5), (set_edits, 0.7)):
        kinds += [Kind(make.__name__, make, weight=weight) for make in module.EDITS]
        kinds += [Kind(make.__name__, make, neutral=True, weight=0.5) for make in module.NEUTRAL_EDITS]
    return {kind.name: kind for kind in kinds}


KINDS = _list_kinds()
"""All kinds by name."""


def edit(scene: Scene, kind: str | None = None) -> Edit | None:
    """Make one edit of this kind, or of a random one. Return None if the project has no place for the kind."""
    if kind is not None:
        return _make_edit(scene, KINDS[kind])
    while True:
        new_edit = _make_edit(scene, _choose_kind(scene))
        if new_edit is not None:
            return new_edit


def _choose_kind(scene: Scene) -> Kind:
    is_broken = any(scene.parse(name) is None for name in scene.list_python_files())
    if is_broken and scene.rng.random() < 0.4:  # people repair it soon
        return KINDS["syntax_repaired"]
    if scene.damaging_changes and scene.rng.random() < 0.3:
        return KINDS["mended"]
    if scene.likely_kinds and scene.rng.random() < 0.3:
        return KINDS[scene.rng.choice(scene.likely_kinds)]
    kinds = _list_possible_kinds(scene)
    return scene.rng.choices(kinds, [kind.weight for kind in kinds])[0]


def _list_possible_kinds(scene: Scene) -> list[Kind]:
    return [kind for kind in KINDS.values() if kind.name not in scene.excluded_kinds]


def _make_edit(scene: Scene, kind: Kind) -> Edit | None:
    with scene.record_change(kind.name) as before:
        description = kind.make(scene)
    if description is None:
        return None
    if kind.name in _DAMAGING:
        scene.damaging_changes.append(scene.changes[-1])
    is_read_as_file = any(path.startswith((*READ_AS_TEXT, TIMED)) for path in before)
    return Edit(kind.name, description, kind.neutral and not is_read_as_file, tuple(sorted(before)))


def make_scene(package: Package) -> Scene:
    """Make the scene of a package. Equal packages get equal edits."""
    return Scene(package, random.Random(f"edits of {package.seed}"))
