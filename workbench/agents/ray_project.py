"""The project as it travels to the nodes of a Ray cluster: which files, and the package that has them."""

from __future__ import annotations

import contextlib
import os
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from workbench.agents.agent_host import AgentError
from workbench.agents.processes import make_setup_failure
from workbench.agents.ray_node import PROJECT

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

_MOST_BYTES = 500 * 1024 * 1024  # a little less than the largest package that Ray stores
_NEVER = frozenset({".git", ".hg", ".svn", ".workbench", ".adk", "__pycache__", "node_modules"})
_ENVIRONMENT = "pyvenv.cfg"  # marks a virtual environment, which works only where it was made
_PACKED_AT = (1980, 1, 1, 0, 0, 0)  # for all files, so that the same project is the same package


class ProjectFile(NamedTuple):
    """A file of the project: what changes when its content does."""

    size: int
    mode: int
    changed_at: int
    inode: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Shipment:
    """The project as it is now: all files, and those that are in the package as they are."""

    files: Mapping[str, ProjectFile]
    packed: Mapping[str, ProjectFile]


def list_project(root: Path, excludes: Sequence[str]) -> dict[str, ProjectFile]:
    """List the files of a project that travel, by their paths below `root`; empty folders end with a slash.

    `excludes` are patterns as in `.gitignore`, and take precedence over those of such files. Raises AgentError if the
    files are too large.
    """
    from pathspec import GitIgnoreSpec

    found: dict[str, ProjectFile] = {}
    rules = [(folder, spec) for folder in _list_parents(root) if (spec := _read_rules(folder)) is not None]
    chosen = GitIgnoreSpec.from_lines(excludes)

    def walk(folder: Path, rules: Sequence[tuple[Path, GitIgnoreSpec]]) -> None:
        spec = _read_rules(folder)
        rules = rules if spec is None else [*rules, (folder, spec)]
        with contextlib.suppress(OSError), os.scandir(folder) as entries:
            is_empty = True
            for entry in sorted(entries, key=lambda entry: entry.name):
                is_empty = False
                path = folder / entry.name
                is_folder = entry.is_dir(follow_symlinks=False)
                if entry.name in _NEVER or _is_ignored(path, is_folder, [*rules, (root, chosen)]):
                    continue
                if is_folder:
                    if not (path / _ENVIRONMENT).exists():
                        walk(path, rules)
                elif entry.is_file():
                    look = entry.stat()
                    name = path.relative_to(root).as_posix()
                    found[name] = ProjectFile(look.st_size, look.st_mode & 0o777, look.st_mtime_ns, look.st_ino)
            if is_empty:
                found[f"{folder.relative_to(root).as_posix()}/"] = ProjectFile(0, 0o755, 0, 0)

    walk(root, rules)
    _check_size(root, found)
    return found


def _list_parents(root: Path) -> Iterator[Path]:
    """Yield the folders above the project that belong to the same repository, the outermost first."""
    top = next((folder for folder in (root, *root.parents) if (folder / ".git").exists()), root)
    yield from reversed([folder for folder in root.parents if folder == top or top in folder.parents])


def _read_rules(folder: Path) -> GitIgnoreSpec | None:
    from pathspec import GitIgnoreSpec

    try:
        lines = (folder / ".gitignore").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    with contextlib.suppress(ValueError):  # an invalid pattern; git ignores it
        return GitIgnoreSpec.from_lines(lines)
    return None


def _is_ignored(path: Path, is_folder: bool, rules: Sequence[tuple[Path, GitIgnoreSpec]]) -> bool:
    for folder, spec in reversed(rules):
        decided = spec.check_file(path.relative_to(folder).as_posix() + ("/" if is_folder else "")).include
        if decided is not None:
            return decided
    return False


def _check_size(root: Path, files: Mapping[str, ProjectFile]) -> None:
    total = sum(file.size for file in files.values())
    if total <= _MOST_BYTES:
        return
    sizes: dict[str, int] = {}
    for name, file in files.items():
        for depth in range(1, min(name.count("/"), 3) + 1):
            folder = "/".join(name.split("/")[:depth]) + "/"
            sizes[folder] = sizes.get(folder, 0) + file.size
        if "/" not in name:
            sizes[name] = file.size
    largest = max(sizes, key=lambda name: (sizes[name], name.count("/")))
    raise AgentError(
        make_setup_failure(
            f"the project is too large for the nodes of the cluster: {_format_size(total)}, expected at most "
            f"{_format_size(_MOST_BYTES)}; {largest} has {_format_size(sizes[largest])} of it. Exclude it in "
            f'{root / "workbench.toml"}: [run.ray] runtime_env.excludes = ["{largest}"], or in .gitignore'
        )
    )


def _format_size(count: int) -> str:
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.0f} MB"


def pack_project(root: Path, names: Sequence[str], package: Path) -> None:
    """Write the files into a package that is the same for the same content."""
    with zipfile.ZipFile(package, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name in names:
            info = zipfile.ZipInfo(f"{PROJECT}/{name}", _PACKED_AT)
            info.compress_type = zipfile.ZIP_DEFLATED
            info.external_attr = 0o100644 << 16
            archive.writestr(info, b"" if name.endswith("/") else read_content(root / name))


def read_content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:  # deleted since it was listed, or not readable: the agent misses it as it would here
        return b""
