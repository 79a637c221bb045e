"""Edits around the code: installed libraries, databases, folders made by agents, links and modes."""

from __future__ import annotations

import base64
import hashlib
import re
import shutil
import sqlite3
from contextlib import closing

from .packages import LIBRARIES, make_database
from .scene import Scene

_LIBRARY = re.compile(r"(\w+)_library")
_CACHE = re.compile(r"cache/\w+")
_LINK = re.compile(r"links/\w+")
_STALL = re.compile(r"flags/\w+\.stall")
_WAITS = re.compile(r"^(\w+_WAITS = )(False|True)$", re.MULTILINE)
_PARENT_FOLDER = re.compile(r"data/\w+_(?:folder|place)")
_MODES = (0o644, 0o600, 0o755, 0o444)


def _pick_library(scene: Scene) -> str | None:
    """Pick a library that some code imports or looks for."""
    names = {match[0] for name in scene.list_sources() for match in _LIBRARY.finditer(scene.read(name))}
    return scene.rng.choice(sorted(names)) if names else None


def _list_library_files(scene: Scene, library: str) -> list[str]:
    """List the files of an installed library."""
    return sorted(name for name in scene.files if name.startswith(f"{LIBRARIES}/{library}"))


def _install(scene: Scene, library: str, version: str) -> None:
    """Replace a library by another version, as pip does: the list of its files comes last."""
    number = scene.pick_number()
    for name in _list_library_files(scene, library):
        scene.delete(name)
    source = f"def compute(n):\n    return n + {number}\n"
    scene.write(f"{LIBRARIES}/{library}/__init__.py", source)
    info_folder = f"{LIBRARIES}/{library}-{version}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {library.replace('_', '-')}\nVersion: {version}\n"
    scene.write(f"{info_folder}/METADATA", metadata, "in_place")
    digest = base64.urlsafe_b64encode(hashlib.sha256(source.encode()).digest()).rstrip(b"=").decode()
    scene.write(f"{info_folder}/RECORD", f"{library}/__init__.py,sha256={digest},{len(source)}\n", "in_place")


def library_installed(scene: Scene) -> str | None:
    """Install a library, or another version of it."""
    library = _pick_library(scene)
    if library is None:
        return None
    version = f"{scene.rng.randint(1, 9)}.{scene.rng.randint(0, 9)}"
    _install(scene, library, version)
    return f"{library} {version}"


def library_reinstalled(scene: Scene) -> str | None:
    """Install the same version of a library with other content."""
    library = _pick_library(scene)
    versions = [name for name in _list_library_files(scene, library) if name.endswith("/RECORD")] if library else []
    if library is None or not versions:
        return None
    version = versions[0].split("/")[-2].removeprefix(f"{library}-").removesuffix(".dist-info")
    _install(scene, library, version)
    return f"{library} {version}"


def library_edited(scene: Scene) -> str | None:
    """Edit a file of an installed library where it is installed."""
    library = _pick_library(scene)
    name = f"{LIBRARIES}/{library}/__init__.py"
    if name not in scene.files:
        return None
    scene.write(name, f"def compute(n):\n    return n + {scene.pick_number()}\n")
    return name


def library_removed(scene: Scene) -> str | None:
    """Remove a library."""
    library = _pick_library(scene)
    names = _list_library_files(scene, library) if library else []
    for name in names:
        scene.delete(name)
    return library if names else None


def _list_databases(scene: Scene) -> list[str]:
    return sorted(name for name in scene.files if name.endswith(".db"))


def database_edited(scene: Scene) -> str | None:
    """Change a number in a database, by SQLite itself or by a new file."""
    names = _list_databases(scene)
    if not names:
        return None
    name, number = scene.rng.choice(names), scene.pick_number()
    statement = scene.rng.choice((f"update things set amount = {number}", f"insert into things values ('x', {number})"))
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.deserialize((scene.root / name).read_bytes())
        try:
            connection.executescript(statement)
        except sqlite3.Error:
            return None
        new = connection.serialize()
    scene.write(name, new)
    return f"{name}: {statement}"


def database_gone(scene: Scene) -> str | None:
    """Delete a database, or replace it by an empty one."""
    names = _list_databases(scene)
    if not names:
        return None
    name = scene.rng.choice(names)
    if scene.rng.random() < 0.5:
        scene.delete(name)
    else:
        scene.write(name, make_database("create table others (name);"))
    return name


def cache_edited(scene: Scene) -> str | None:
    """Change something in a folder made by agents. Never reverted, as agents may write there again."""
    folders = [text for text in scene.list_constants() if _CACHE.fullmatch(text)]
    if not folders:
        return None
    folder = scene.rng.choice(folders)
    way = scene.rng.choice(("added", "edited", "removed", "emptied"))
    if way == "added":
        scene.write(f"{folder}/people_{scene.pick_number()}.txt", f"{scene.pick_number()}\n")
        return f"{folder}: {way}"
    place = scene.root / folder / f"own_{scene.rng.randint(0, 12)}.txt"
    number = scene.pick_number()
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
    """Add a file at a path where agents need a folder."""
    folders = {match[0] for text in scene.list_constants() if (match := _PARENT_FOLDER.match(text))}
    names = sorted(name for name in folders if not scene.has(name))
    if not names:
        return None
    name = scene.rng.choice(names)
    scene.write(name, "a file\n")
    return name


def link_turned(scene: Scene) -> str | None:
    """Change the target of a link, mostly to a missing file, or delete the link. Never reverted."""
    names = [text for text in scene.list_constants() if _LINK.fullmatch(text)]
    if not names:
        return None
    path = scene.root / scene.rng.choice(names)
    target = scene.rng.choice(("", f"{scene.pick_number()}", "../notes.md"))
    path.parent.mkdir(exist_ok=True)
    path.unlink(missing_ok=True)
    if target:
        path.symlink_to(target)
    return f"{path.name} leads to {target or 'nothing'}"


def mode_changed(scene: Scene) -> str | None:
    """Change the mode of a file whose mode agents check. Never reverted."""
    names = sorted(name for name in scene.files if name.startswith("timed/"))
    if not names:
        return None
    name, mode = scene.rng.choice(names), scene.rng.choice(_MODES)
    (scene.root / name).chmod(mode)
    return f"{name}: {mode:o}"


def stalled(scene: Scene) -> str | None:
    """Make agents wait for ever."""
    flags = [text for text in scene.list_constants() if _STALL.fullmatch(text) and not scene.has(text)]
    constants = [name for name in scene.list_sources() if "_WAITS = False" in scene.read(name)]
    if not flags and not constants:
        return None
    name = scene.rng.choice([*flags, *constants])
    scene.write(name, "on\n" if name in flags else _WAITS.sub(r"\1True", scene.read(name)))
    return name


EDITS = (
    library_installed, library_reinstalled, library_edited, library_removed, database_edited, database_gone,
    cache_edited, file_for_folder, link_turned, mode_changed,
)  # fmt: skip
RARE_EDITS = (stalled,)
"""Edits after which cases run into their time limit."""
