"""Edits of data, prompts, flags, `.env` and unused files."""

from __future__ import annotations

import os
import re
from pathlib import PurePosixPath

from .packages import ENVIRONMENT
from .scene import Scene

_PATH = re.compile(r"(?:data|flags|prompts)/[\w./-]+")
_JOURNAL = re.compile(r"data/\w+_journal\.txt")
_VARIABLE = re.compile(r"\bGENERATED_[A-Z_]+\b")
_CONTENT = {
    ".json": '{{"value": {0}, "rate": {0}}}\n', ".ini": "[limits]\nleast = {0}\n", ".toml": "[limits]\nmost = {0}\n",
    ".csv": "name,amount\nnew,{0}\n",
}  # fmt: skip


def data_edited(scene: Scene) -> str | None:
    """Change a number or word in a data file or prompt."""
    names = [name for name in scene.list_data_files() if re.search(r"\w", scene.read(name))]
    if not names:
        return None
    name = scene.rng.choice(names)
    text = scene.read(name)
    match = scene.rng.choice(list(re.finditer(r"\d+|[a-z]{3,}", text)) or [None])
    if match is None:
        return None
    new = str(scene.pick_number()) if match[0].isdigit() else match[0][:-1] + scene.rng.choice("xyz")
    scene.write(name, text[: match.start()] + new + text[match.end() :])
    return f"{name}: {match[0]} is now {new}"


def data_lengthened(scene: Scene) -> str | None:
    """Append a line to a data file. Some formats allow it, some do not."""
    names = scene.list_data_files()
    if not names:
        return None
    name = scene.rng.choice(names)
    scene.write(name, scene.read(name) + scene.rng.choice(("\n", f"and {scene.pick_number()}\n", "  \n")))
    return name


def data_deleted(scene: Scene) -> str | None:
    """Delete a data file."""
    names = scene.list_data_files()
    if not names:
        return None
    name = scene.rng.choice(names)
    scene.delete(name)
    return name


def data_renamed(scene: Scene) -> str | None:
    """Rename a data file, within its folder or into another."""
    names = scene.list_data_files()
    if not names:
        return None
    name = scene.rng.choice(names)
    path = PurePosixPath(name)
    new = (
        path.with_stem(f"{path.stem}_{scene.pick_number()}") if scene.rng.random() < 0.7 else f"data/moved/{path.name}"
    )
    other = str(new)
    if scene.has(other):
        return None
    scene.rename(name, other)
    return f"{name} is now {other}"


def data_created(scene: Scene) -> str | None:
    """Create a missing file that the code looks for."""
    missing = _list_missing_files(scene)
    if not missing:
        return None
    name = scene.rng.choice(missing)
    if name.endswith("_folder"):
        name += f"/{scene.pick_number()}.txt"
    scene.write(name, _CONTENT.get(PurePosixPath(name).suffix, "{0}\n").format(scene.pick_number()))
    return name


def _list_missing_files(scene: Scene) -> list[str]:
    """List the missing files that the code names, except those that agents write."""
    agent_written = ("_state.json", "_journal.txt", ".stall")
    named = [text for text in scene.list_constants() if _PATH.fullmatch(text) and not text.endswith(agent_written)]
    return [name for name in named if not scene.has(name) and ("." in name or name.endswith("_folder"))]


def journal_begun_anew(scene: Scene) -> str | None:
    """Rewrite a file that agents append to. Never reverted, as that would restore what they had appended."""
    names = [text for text in scene.list_constants() if _JOURNAL.fullmatch(text)]
    if not names:
        return None
    path = scene.root / scene.rng.choice(names)
    path.parent.mkdir(exist_ok=True)
    if path.exists():
        scene.journals.append((path, path.read_bytes()))
    path.write_text(f"{scene.pick_number()}\n")
    return path.name


def journal_brought_back(scene: Scene) -> str | None:
    """Restore what agents had appended before such a file was rewritten."""
    if not scene.journals:
        return None
    path, before = scene.rng.choice(scene.journals)
    path.write_bytes(before)
    return path.name


def probed(scene: Scene) -> str | None:
    """Set or remove a flag."""
    flags = [name for name in scene.files if name.startswith("flags/")]
    named = [name for name in _list_missing_files(scene) if name.startswith("flags/") and "." in name]
    choices = sorted({*flags, *named})
    if not choices:
        return None
    name = scene.rng.choice(choices)
    if name in flags:
        scene.delete(name)
        return f"{name} taken away"
    scene.write(name, "on\n")
    return f"{name} set"


def listed_added(scene: Scene) -> str | None:
    """Add a file or a folder where files are listed."""
    folders = sorted({name.rpartition("/")[0] for name in scene.list_data_files() if name.count("/") > 1})
    if not folders:
        return None
    subfolder = scene.rng.choice(("", "", f"new_{scene.pick_number()}/"))
    name = (
        f"{scene.rng.choice(folders)}/{subfolder}"
        f"{scene.rng.choice(('first', 'added', 'zebra'))}_{scene.pick_number()}.txt"
    )
    scene.write(name, f"{scene.pick_number()}\n")
    return name


def listed_removed(scene: Scene) -> str | None:
    """Remove a file where files are listed."""
    names = [name for name in scene.list_data_files() if name.count("/") > 1]
    if not names:
        return None
    name = scene.rng.choice(names)
    scene.delete(name)
    return name


def _list_known_variables(scene: Scene) -> list[str]:
    """List the variables that the code names."""
    found = {name for source in scene.list_sources() for name in _VARIABLE.findall(scene.read(source))}
    return sorted(found - set(ENVIRONMENT))


def _read_env_lines(scene: Scene) -> list[str]:
    return scene.read(".env").splitlines(keepends=True) if ".env" in scene.files else []


def env_value(scene: Scene) -> str | None:
    """Change the value of a variable."""
    lines = _read_env_lines(scene)
    places = [index for index, line in enumerate(lines) if "=" in line and line.partition("=")[0] not in ENVIRONMENT]
    if not places:
        return None
    index = scene.rng.choice(places)
    name = lines[index].partition("=")[0]
    lines[index] = f"{name}={scene.pick_number()}\n"
    scene.write(".env", "".join(lines))
    return name


def env_key_added(scene: Scene) -> str | None:
    """Add a variable."""
    lines = _read_env_lines(scene)
    defined = {line.partition("=")[0] for line in lines}
    names = [name for name in _list_known_variables(scene) if name not in defined]
    name = scene.rng.choice(names) if names and scene.rng.random() < 0.8 else f"GENERATED_NEW_{scene.pick_number()}"
    scene.write(".env", "".join([*lines, f"{name}={scene.pick_number()}\n"]))
    return name


def env_key_removed(scene: Scene) -> str | None:
    """Remove a variable."""
    lines = _read_env_lines(scene)
    places = [index for index, line in enumerate(lines) if "=" in line]
    if not places:
        return None
    line = lines.pop(scene.rng.choice(places))
    scene.write(".env", "".join(lines))
    return line.partition("=")[0]


def env_deleted(scene: Scene) -> str | None:
    """Delete `.env`."""
    if ".env" not in scene.files:
        return None
    scene.delete(".env")
    return ".env"


def env_created(scene: Scene) -> str | None:
    """Create a `.env`."""
    names = _list_known_variables(scene)
    if ".env" in scene.files or not names:
        return None
    chosen = scene.rng.sample(names, min(len(names), 2))
    scene.write(".env", "".join(f"{name}={scene.pick_number()}\n" for name in chosen))
    return ", ".join(chosen)


def env_overruled(scene: Scene) -> str | None:
    """Set a variable in `.env` that the environment overrides."""
    lines = [line for line in _read_env_lines(scene) if line.partition("=")[0] not in ENVIRONMENT]
    scene.write(".env", "".join([*(f"{name}={scene.pick_number()}\n" for name in ENVIRONMENT), *lines]))
    return ", ".join(ENVIRONMENT)


def env_comment(scene: Scene) -> str | None:
    """Add a comment to `.env`."""
    if ".env" not in scene.files:
        return None
    scene.write(".env", f"# {scene.pick_number()}\n{scene.read('.env')}")
    return ".env"


def touched(scene: Scene) -> str | None:
    """Update the modification time of a file, but not its content."""
    name = scene.rng.choice(sorted(scene.files))
    scene.remember(name)
    os.utime(scene.root / name)
    return name


def written_again(scene: Scene) -> str | None:
    """Write the same bytes again."""
    name = scene.rng.choice(sorted(scene.files))
    scene.write(name, (scene.root / name).read_bytes())
    return name


def notes(scene: Scene) -> str | None:
    """Write an unused text file."""
    name = scene.rng.choice(("notes.md", "README.md", "data/unused.json", f"docs/unused_{scene.pick_number()}.json"))
    scene.write(name, f"Read {scene.pick_number()} times.\n")
    return name


EDITS = (
    data_edited, data_lengthened, data_deleted, data_renamed, data_created, journal_begun_anew,
    journal_brought_back, probed, listed_added,
    listed_removed, env_value, env_key_added, env_key_removed, env_deleted, env_created,
)  # fmt: skip
NEUTRAL_EDITS = (env_overruled, env_comment, touched, written_again, notes)
