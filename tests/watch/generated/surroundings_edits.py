"""Edits of what is around the code: installed libraries, databases, folders that agents made, links and modes."""

from __future__ import annotations

import re
import shutil
import sqlite3
from contextlib import closing

from .packages import LIBRARIES, database
from .scene import Scene

_LIBRARY = re.compile(r"(\w+)_library")
_CACHE = re.compile(r"cache/\w+")
_LINK = re.compile(r"links/\w+")
_STALL = re.compile(r"flags/\w+\.stall")
_WAITS = re.compile(r"^(\w+_WAITS = )(False|True)$", re.MULTILINE)
_ABOVE = re.compile(r"data/\w+_(?:folder|place)")
_MODES = (0o644, 0o600, 0o755, 0o444)


def _library(scene: Scene) -> str | None:
    """The name of a library that some code imports or asks for."""
    names = {match[0] for name in scene.sources() for match in _LIBRARY.finditer(scene.read(name))}
    return scene.rng.choice(sorted(names)) if names else None


def _parts(scene: Scene, library: str) -> list[str]:
    """The files of a library that is installed."""
    return sorted(name for name in scene.files if name.startswith(f"{LIBRARIES}/{library}"))


def _install(scene: Scene, library: str, version: str) -> None:
    """Put a version of a library in the place of what was there, as pip does: the list of its files comes last."""
    number = scene.number()
    for name in _parts(scene, library):
        scene.delete(name)
    scene.write(f"{LIBRARIES}/{library}/__init__.py", f"def compute(n):\n    return n + {number}\n")
    told = f"{LIBRARIES}/{library}-{version}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {library.replace('_', '-')}\nVersion: {version}\n"
    scene.write(f"{told}/METADATA", metadata, "in_place")
    scene.write(f"{told}/RECORD", f"{library}/__init__.py,{number},9\n", "in_place")


def library_installed(scene: Scene) -> str | None:
    """A library that was not there, or another version of it."""
    library = _library(scene)
    if library is None:
        return None
    version = f"{scene.rng.randint(1, 9)}.{scene.rng.randint(0, 9)}"
    _install(scene, library, version)
    return f"{library} {version}"


def library_reinstalled(scene: Scene) -> str | None:
    """The same version of a library with something else in it."""
    library = _library(scene)
    versions = [name for name in _parts(scene, library) if name.endswith("/RECORD")] if library else []
    if library is None or not versions:
        return None
    version = versions[0].split("/")[-2].removeprefix(f"{library}-").removesuffix(".dist-info")
    _install(scene, library, version)
    return f"{library} {version}"


def library_removed(scene: Scene) -> str | None:
    """A library taken away."""
    library = _library(scene)
    names = _parts(scene, library) if library else []
    for name in names:
        scene.delete(name)
    return library if names else None


def _databases(scene: Scene) -> list[str]:
    return sorted(name for name in scene.files if name.endswith(".db"))


def database_edited(scene: Scene) -> str | None:
    """Another number in a database, written by SQLite itself or by a new file in its place."""
    names = _databases(scene)
    if not names:
        return None
    name, number = scene.rng.choice(names), scene.number()
    statement = scene.rng.choice((f"update things set amount = {number}", f"insert into things values ('x', {number})"))
    with closing(sqlite3.connect(":memory:")) as base:
        base.deserialize((scene.root / name).read_bytes())
        try:
            base.executescript(statement)
        except sqlite3.Error:
            return None
        new = base.serialize()
    scene.write(name, new)
    return f"{name}: {statement}"


def database_gone(scene: Scene) -> str | None:
    """A database taken away, or one without anything in it."""
    names = _databases(scene)
    if not names:
        return None
    name = scene.rng.choice(names)
    if scene.rng.random() < 0.5:
        scene.delete(name)
    else:
        scene.write(name, database("create table others (name);"))
    return name


def cache_edited(scene: Scene) -> str | None:
    """Something in a folder that agents made. What they wrote there is never brought back: they may write it anew."""
    folders = [text for text in scene.constants() if _CACHE.fullmatch(text)]
    if not folders:
        return None
    folder = scene.rng.choice(folders)
    way = scene.rng.choice(("added", "edited", "removed", "emptied"))
    if way == "added":
        scene.write(f"{folder}/people_{scene.number()}.txt", f"{scene.number()}\n")
        return f"{folder}: {way}"
    place = scene.root / folder / f"own_{scene.rng.randint(0, 12)}.txt"
    number = scene.number()
    if way == "edited":
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(f"{number}")
    elif way == "removed":
        place.unlink(missing_ok=True)
    elif any(name.startswith(f"{folder}/") for name in scene.files):
        return None
    else:
        shutil.rmtree(place.parent, ignore_errors=True)
    return f"{place.relative_to(scene.root)}: {way}"


def file_for_folder(scene: Scene) -> str | None:
    """A file where agents want to have a folder."""
    wanted = {match[0] for text in scene.constants() if (match := _ABOVE.match(text))}
    names = sorted(name for name in wanted if not scene.has(name))
    if not names:
        return None
    name = scene.rng.choice(names)
    scene.write(name, "a file\n")
    return name


def link_turned(scene: Scene) -> str | None:
    """A link that leads elsewhere, mostly to nothing, or none any more. Never taken back."""
    names = [text for text in scene.constants() if _LINK.fullmatch(text)]
    if not names:
        return None
    path = scene.root / scene.rng.choice(names)
    target = scene.rng.choice(("", f"{scene.number()}", "../notes.md"))
    path.parent.mkdir(exist_ok=True)
    path.unlink(missing_ok=True)
    if target:
        path.symlink_to(target)
    return f"{path.name} leads to {target or 'nothing'}"


def mode_changed(scene: Scene) -> str | None:
    """Another mode for a file that agents ask the mode of. Never taken back."""
    names = sorted(name for name in scene.files if name.startswith("timed/"))
    if not names:
        return None
    name, mode = scene.rng.choice(names), scene.rng.choice(_MODES)
    (scene.root / name).chmod(mode)
    return f"{name}: {mode:o}"


def stalled(scene: Scene) -> str | None:
    """Something for which agents wait, for ever."""
    flags = [text for text in scene.constants() if _STALL.fullmatch(text) and not scene.has(text)]
    constants = [name for name in scene.sources() if "_WAITS = False" in scene.read(name)]
    if not flags and not constants:
        return None
    name = scene.rng.choice([*flags, *constants])
    scene.write(name, "on\n" if name in flags else _WAITS.sub(r"\1True", scene.read(name)))
    return name


EDITS = (
    library_installed, library_reinstalled, library_removed, database_edited, database_gone, cache_edited,
    file_for_folder, link_turned, mode_changed,
)  # fmt: skip
RARE_EDITS = (stalled,)
"""Those after which cases take as long as they may."""
