"""Which files and folders do not count."""

from __future__ import annotations

import os
import re
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.model.patterns import MAX_FOLDER_WILDCARDS, remove_backtracking

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec


# What of a project nobody wants watched: by name, by what lies in it, and by what `.gitignore` files say.

_FOLDERS = {
    # version control
    *(".git", ".hg", ".svn", ".bzr", "_darcs", ".jj", ".sl", "CVS"),
    # ours, and what ADK keeps of its runs
    *(".workbench", ".adk"),
    # caches
    *("__pycache__", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".hypothesis", ".cache", ".ipynb_checkpoints"),
    *(".pytype", ".pyre", ".tox", ".nox", ".parcel-cache", ".turbo", ".gradle", ".dart_tool", ".terraform", "htmlcov"),
    # environments and what package managers install
    *(".venv", ".direnv", ".pixi", ".conda", "__pypackages__", "site-packages", "node_modules", "bower_components"),
    # what builds leave
    *(".eggs", ".next", ".nuxt", ".svelte-kit", ".output"),
    # what editors and desktops keep
    *(".idea", ".vs", ".vscode", ".fleet", ".history", ".Trash", "$RECYCLE.BIN"),
}

# Outputs only where the file that the build reads stands beside them: an agent's package may well be called `target`.
_PYTHON = frozenset({"pyproject.toml", "setup.py", "setup.cfg"})
_OUTPUTS = {
    "build": _PYTHON | {"package.json", "build.gradle", "build.gradle.kts", "CMakeLists.txt"},
    "dist": _PYTHON | {"package.json"},
    "target": frozenset({"Cargo.toml", "pom.xml", "build.sbt"}),
    "_build": frozenset({"conf.py", "Makefile"}),
    "site": frozenset({"mkdocs.yml"}),
}

# Files in a folder that say that it is an environment or a cache (bford.info/cachedir), whatever its name.
_TELLTALES = frozenset({"pyvenv.cfg", "conda-meta", "CACHEDIR.TAG"})

# Files that say something about what is watched beside, above or below them.
MARKERS = frozenset({".gitignore", ".git"}).union(_TELLTALES, *_OUTPUTS.values())

_FILES = re.compile(
    r"""
      .*~ | \#.*\# | \.\#.* | .*\.sw[a-z] | 4913 | \..*\.un~ | .*\.kate-swp      # Emacs, Vim, Kate
    | .*___jb_(?:tmp|old|bak)___ | \.goutputstream-.* | \.~lock\..*\# | ~\$.*    # JetBrains, GNOME, office programs
    | .*\.(?:tmp|temp|bak|crdownload|part) | sed[A-Za-z0-9]{6}                   # temporary and backup files
    | \.nfs[0-9a-f]{16,} | \.fuse_hidden[0-9a-f]+ | \.smbdelete.*                # deleted, but still open somewhere
    | .*\.py[co] | \.coverage(?:\..*)? | \.DS_Store | Thumbs\.db | desktop\.ini
    """,
    re.VERBOSE,
)
# Left out by most `.gitignore` files, and nearly every agent reads them.
_ALWAYS_WATCHED = re.compile(r"\.env(?:\..*)?|.*\.env|workbench\.toml")


def is_environment_or_cache(names: Collection[str]) -> bool:
    """Whether the names in a folder say that it is a virtual environment or a cache."""
    return not _TELLTALES.isdisjoint(names)


def is_excluded_folder(name: str, beside: Collection[str]) -> bool:
    """Whether a folder is left out for its name, or for the names `beside` it that say that a build makes it."""
    if name in _FOLDERS or name.endswith((".egg-info", ".dist-info")):
        return True
    return name in _OUTPUTS and not _OUTPUTS[name].isdisjoint(beside)


def is_excluded_file(name: str) -> bool:
    """Whether a file is left out for its name: what editors and systems write beside what somebody saves."""
    return _FILES.fullmatch(name) is not None


def is_always_watched(name: str) -> bool:
    """Whether a file is watched although a `.gitignore` file leaves it out."""
    return _ALWAYS_WATCHED.fullmatch(name) is not None


class Rules:
    """What the `.gitignore` files of a folder and of those above it leave out."""

    def __init__(self, folder: str, text: bytes, above: Rules | None) -> None:
        """Rules of one file, or none where `text` is empty; `folder` is the one that its patterns are relative to."""
        self._folder = folder
        self._text = text
        self._above = above
        self._spec = _parse(text)

    def extend(self, folder: str, text: bytes, known: Rules | None) -> Rules:
        """These rules and those of a file in `folder`; `known` itself where it says the same, so that it compares."""
        if not text:
            return self
        if known is not None and (known._folder, known._text, known._above) == (folder, text, self):
            return known
        return Rules(folder, text, self)

    def is_equivalent(self, other: Rules | None) -> bool:
        """Whether other rules leave out the same."""
        if other is None or (self._folder, self._text) != (other._folder, other._text):
            return False
        return other._above is None if self._above is None else self._above.is_equivalent(other._above)

    def is_excluded(self, path: str, *, folder: bool) -> bool:
        """Whether a path is left out, given that no folder above it is. The nearest file that names it decides."""
        rules: Rules | None = self
        while rules is not None:
            if rules._spec is not None:
                inner = path[len(rules._folder) :].lstrip(os.sep).replace(os.sep, "/")
                decision = rules._spec.check_file(f"{inner}/" if folder else inner).include
                if decision is not None:
                    return decision
            rules = rules._above
        return False


def _parse(text: bytes) -> GitIgnoreSpec | None:
    """The patterns of a file. A line that is no pattern is skipped, as git does, and one with too many `**` as well."""
    lines = [line for line in text.decode("utf-8", "surrogateescape").lstrip("\ufeff").splitlines() if line.strip()]
    if not any(not line.startswith("#") for line in lines):
        return None
    from pathspec import GitIgnoreSpec, RegexPattern

    patterns: list[Any] = []
    for line in lines:
        try:
            parsed = GitIgnoreSpec.from_lines([line]).patterns
        except ValueError:
            continue
        if line.count("**") <= MAX_FOLDER_WILDCARDS:
            patterns += parsed
    for pattern in patterns:
        if isinstance(pattern, RegexPattern) and pattern.regex is not None:
            pattern.regex = re.compile(remove_backtracking(pattern.regex.pattern))
    return GitIgnoreSpec(patterns)


# Where git keeps what concerns a folder: the lock that tells that it is at work, and rules above the folder.


def find_lock(work_tree: str) -> str | None:
    """The file that exists while git changes the work tree that has a `.git` in it; None where that is no repository.

    In a worktree and in a submodule `.git` is a file that names the folder.
    """
    there = Path(work_tree, ".git")
    try:
        if not there.is_dir():
            kind, _, place = there.read_text(errors="surrogateescape").partition(":")
            if kind != "gitdir":
                return None
            there = Path(work_tree, place.strip())
    except OSError:
        return None
    return os.fspath(there / "index.lock")


def find_work_tree(folder: str) -> str | None:
    """The nearest folder at or above this one with a `.git` in it."""
    path = Path(folder)
    for candidate in (path, *path.parents):
        if (candidate / ".git").exists():
            return os.fspath(candidate)
    return None


def read_parent_rules(folder: str, top: str | None) -> tuple[Rules, list[str]]:
    """What the repository says about a folder in it, and the files that say so, which may not exist.

    A folder that is left out itself was asked for by name: then nothing said above it counts.
    """
    none = Rules(folder, b"", None)
    if top is None:
        return none, []
    files: list[str] = []
    exclude = Path(find_lock(top) or os.path.join(top, ".git", "index.lock")).with_name("info") / "exclude"
    rules = Rules(top, read_bytes(exclude), None)
    place = Path(top)
    for part in Path(folder).relative_to(top).parts:
        file = place / ".gitignore"
        files.append(os.fspath(file))
        rules = rules.extend(os.fspath(place), read_bytes(file), None)
        place /= part
        if rules.is_excluded(os.fspath(place), folder=True):
            return none, files
    return rules, files


def read_bytes(path: str | Path) -> bytes:
    """The bytes of a file of rules; nothing where it cannot be read."""
    try:
        return Path(path).read_bytes()
    except OSError:
        return b""
