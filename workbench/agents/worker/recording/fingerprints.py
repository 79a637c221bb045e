"""Fingerprints: short texts that are equal exactly if files, folders, names or variables are equal.

The worker computes them when a case reads something, the engine when it checks whether that is unchanged. PROTOCOL.md
says which fingerprint belongs to which row.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import stat
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, Collection, Iterable, Mapping

FORMAT = 7
"""Incremented whenever an equal state gets another fingerprint, or recorded rows change."""

ABSENT = "absent"
"""The fingerprint of anything that does not exist."""

IGNORED = frozenset((".git", ".workbench", ".adk", "__pycache__"))
"""Folders that are neither recorded nor listed: other tools store their own data there."""

LIBRARIES = frozenset(("site-packages", "dist-packages"))
"""Names of folders in which libraries are installed."""

_UNREADABLE = "unreadable"
_NO_VARIABLES = "none"
_LARGEST = 64 * 1024 * 1024  # bytes; for larger files size and times count instead
_PIECE = 1 << 20
_INSTALLED = (".dist-info", ".egg-info", ".egg-link", ".pth")
_UNFINISHED = 60.0  # seconds; an older unfinished installation was abandoned
_EXTENSIONS = (".so", ".pyd")

# Variables that differ between terminals, sessions or CI jobs and do not affect agents.
_OF_SESSION = frozenset(
    (
        "_", "COLORTERM", "COLUMNS", "DISPLAY", "HOSTNAME", "INVOCATION_ID", "JOURNAL_STREAM", "LC_CTYPE", "LINES",
        "LS_COLORS", "MAIL", "OLDPWD", "PROMPT_COMMAND", "PS1", "PWD", "PYTEST_CURRENT_TEST", "SECURITYSESSIONID",
        "SESSION_MANAGER", "SHLVL", "STY", "TERM", "WAYLAND_DISPLAY", "WINDOWID", "XAUTHORITY",
    )
)  # fmt: skip
_OF_SESSIONS = (
    "ALACRITTY_", "BUILDKITE_", "CI_", "CIRCLE_", "DBUS_", "DIRENV_", "GITHUB_", "GITLAB_", "GNOME_", "GPG_", "ITERM_",
    "KITTY_", "LC_TERMINAL", "PYTEST_XDIST_", "RUNNER_", "SSH_", "SYSTEMD_", "TERM_", "TMUX", "VSCODE_", "VTE_",
    "WEZTERM_", "WORKBENCH_", "XDG_", "__",
)  # fmt: skip
_OF_LOCALE = ("LANG", "LANGUAGE", "LC_")

_stat, _lstat, _listdir, _readlink = (
    os.stat,
    os.lstat,
    os.listdir,
    os.readlink,
)  # saved, because the recorder wraps some of them
_scandir = os.scandir


def digest(data: bytes) -> str:
    """Return the first 16 hex digits of SHA-256."""
    return hashlib.sha256(data).hexdigest()[:16]


def of_file(path: str) -> str:
    """Fingerprint the content of a file."""
    try:
        found = _stat(path)
        if stat.S_ISDIR(found.st_mode):
            return "folder"
        if not stat.S_ISREG(found.st_mode):
            return "special"  # reading a pipe or device would block or change it
        if found.st_size > _LARGEST:
            return f"~{found.st_size}:{found.st_mtime_ns}:{found.st_ctime_ns}"
        hashed = hashlib.sha256()
        with open(path, "rb", buffering=0) as stream:
            while piece := stream.read(_PIECE):
                hashed.update(piece)
    except (FileNotFoundError, NotADirectoryError, ValueError):  # ValueError: an impossible name
        return ABSENT
    except OSError:
        return _UNREADABLE
    return hashed.hexdigest()[:16]


def of_folder(path: str, *, without: Collection[str] = (), gone: Collection[str] = ()) -> str:
    """Fingerprint the names in a folder, with folders marked. See `of_names`."""
    try:
        names = list_entries(path)
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return ABSENT
    except OSError:
        return _UNREADABLE
    return of_names(names, without=without, gone=gone)


def list_entries(path: str) -> list[str]:
    """Return the names in a folder; those of folders end with a slash. Raises OSError and ValueError."""
    with _scandir(path) as entries:
        return [f"{entry.name}/" if _is_folder_entry(entry) else entry.name for entry in entries]


def _is_folder_entry(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False


def of_names(names: Iterable[str], *, without: Collection[str] = (), gone: Collection[str] = ()) -> str:
    """Fingerprint a listed folder without the names `without`. Deleted names (`gone`) are included."""
    left_out = IGNORED.union(without)
    counted = [os.fsencode(name) for name in names if name.rstrip("/") not in left_out]
    counted += [b"/" + os.fsencode(name) for name in gone]  # no name begins with a slash
    return digest(b"\0".join(sorted(counted)))


def of_probe(path: str) -> str:
    """Fingerprint what exists: `file`, `folder` or `absent`. A symbolic link counts with its target and its path."""
    try:
        found = _lstat(path)
    except (OSError, ValueError):
        return ABSENT
    if not stat.S_ISLNK(found.st_mode):
        return "folder" if stat.S_ISDIR(found.st_mode) else "file"
    try:
        target = "folder" if stat.S_ISDIR(_stat(path).st_mode) else "file"
    except OSError:
        target = ABSENT
    try:
        return f"{target} by {digest(os.fsencode(_readlink(path)))}"
    except OSError:  # it was deleted
        return ABSENT


def of_time(path: str) -> str:
    """Fingerprint the time of the last change."""
    found = _stat_or_none(path)
    return ABSENT if found is None else str(found.st_mtime_ns)


def of_mode(path: str) -> str:
    """Fingerprint type, permissions and owner."""
    found = _stat_or_none(path)
    return ABSENT if found is None else f"{found.st_mode:o}:{found.st_uid}:{found.st_gid}"


def _stat_or_none(path: str) -> os.stat_result | None:
    try:
        return _stat(path)
    except (OSError, ValueError):
        return None


def of_import(folder: str, names: Iterable[str]) -> str:
    """Fingerprint what an import finds in a folder under each of the names.

    Like the import system, except that all extension modules count, whether this interpreter can load them or not.
    """
    there = _list_plain_names(folder) or frozenset()
    extensions = _extensions(there)
    return ",".join(_classify_module(folder, name, there, extensions) for name in names)


IMPORTED = frozenset(("package", "bytecode package", "extension", "extension+module", "module", "bytecode"))
"""Results of `of_import` that end the search of an import."""


def list_importable_names(folder: str) -> set[str]:
    """Return the names under which an import may find something in a folder."""
    return {entry.split(".", 1)[0] for entry in _list_plain_names(folder) or ()}


def _classify_module(folder: str, name: str, there: Collection[str], extensions: Collection[str]) -> str:
    inside = _list_plain_names(os.path.join(folder, name)) if name in there else None
    if inside is not None and ("__init__.py" in inside or "__init__" in _extensions(inside)):
        return "package"
    if inside is not None and "__init__.pyc" in inside:
        return "bytecode package"
    is_module = f"{name}.py" in there and not _is_folder(os.path.join(folder, f"{name}.py"))
    if name in extensions:
        return "extension+module" if is_module else "extension"
    if is_module:
        return "module"
    if f"{name}.pyc" in there:
        return "bytecode"
    return "namespace" if inside is not None else ABSENT


def _list_plain_names(folder: str) -> Collection[str] | None:
    try:
        return frozenset(_listdir(folder))
    except (OSError, ValueError):
        return None


def _extensions(names: Iterable[str]) -> Collection[str]:
    """Return the names of extension modules among file names."""
    return frozenset(name.split(".", 1)[0] for name in names if name.endswith(_EXTENSIONS))


def _is_folder(path: str) -> bool:
    try:
        return stat.S_ISDIR(_stat(path).st_mode)
    except OSError:
        return False


def derive_secret(target_path: str) -> bytes:
    """Return the key for hashing values of variables, so that they cannot be looked up in a table."""
    return hashlib.sha256(os.fsencode(target_path)).digest()


def of_variable(secret: bytes, value: str | None) -> str:
    """Fingerprint the value of an environment variable; None if it is not set."""
    if value is None:
        return ABSENT
    return _hash_with_key(secret, value)


def of_variables(secret: bytes, values: Mapping[str, str]) -> str:
    """Fingerprint names and values of several variables: `NAME=hash,NAME=hash`. See `find_changed_variables`."""
    parts = (f"{ascii(name)[1:-1]}={_hash_with_key(secret, f'{name}={values[name]}')}" for name in sorted(values))
    return ",".join(parts) or _NO_VARIABLES


def find_changed_variables(before: str, now: str) -> dict[str, str]:
    """Compare two fingerprints of several variables. Return a word for each name that differs: new, gone or changed.

    It is empty for a fingerprint without names, as earlier versions made them.
    """
    if "=" not in before and before != _NO_VARIABLES:
        return {}
    then, today = (dict(part.rpartition("=")[::2] for part in text.split(",") if "=" in part) for text in (before, now))
    return {
        name: "new" if name not in then else "changed" if name in today else "gone"
        for name in sorted({*then, *today})
        if then.get(name) != today.get(name)
    }


def select_variables(what: str, values: Mapping[str, str], *, defined: Collection[str]) -> dict[str, str]:
    """Return the variables that count if several are read at once; `defined` are those of `.env` files.

    `all`: defined variables and others that do not differ between sessions. `proxies`: those of the network. `locale`:
    the time zone, and locale variables of `.env` files, which C libraries read. Names after that, joined by NUL, are
    left out.
    """
    kind, *left_out = what.split("\0")
    if kind == "proxies":
        counted = [name for name in values if name.lower().endswith("_proxy")]
    elif kind == "locale":
        counted = [name for name in values if name == "TZ" or (name in defined and name.startswith(_OF_LOCALE))]
    else:
        counted = [
            name for name in values if name in defined or not (name in _OF_SESSION or name.startswith(_OF_SESSIONS))
        ]
    return {name: values[name] for name in counted if name not in left_out}


def _hash_with_key(secret: bytes, text: str) -> str:
    return hmac.digest(secret, text.encode("utf-8", "surrogateescape"), "sha256").hex()[:16]


def of_installed(folder: str, *, part: Callable[[str], str] = of_file) -> str:
    """Fingerprint the distributions in a folder: names, versions, files, and locations of editable ones.

    Files count through RECORD, which has their hashes. `part` fingerprints a file that describes a distribution, or
    `pyvenv.cfg`, which names other folders.
    """
    try:
        names = _listdir(folder)
    except NotADirectoryError:
        return part(folder)
    except OSError:
        return ABSENT
    described = [name for name in names if name.endswith(_INSTALLED) or name.startswith("__editable__")]
    if is_library_folder(folder):
        parts = [os.path.join(name, "RECORD") if name.endswith(".dist-info") else name for name in described]
        described = [*names, *(f"{name}\0{part(os.path.join(folder, name))}" for name in parts)]
    return of_names(described)


def is_library_folder(path: str) -> bool:
    """Return True if libraries are installed in a folder."""
    return os.path.basename(path) in LIBRARIES


def is_being_installed(folder: str) -> bool:
    """Return True if an installation in a folder began recently and is not complete.

    RECORD is written last, and replaced packages have a name with `~` until then.
    """
    try:
        names = _listdir(folder)
    except OSError:
        return False
    records = {name: os.path.join(folder, name, "RECORD") for name in names if name.endswith(".dist-info")}
    begun = [name for name in names if name.startswith("~") or (name in records and of_times(records[name]) == ABSENT)]
    for name in begun:
        try:
            changed = _lstat(os.path.join(folder, name)).st_ctime
        except OSError:
            continue
        if abs(time.time() - changed) < _UNFINISHED:
            return True
    return False


def of_environment(path: str) -> str:
    """Fingerprint the state of an interpreter, its settings, or a folder of libraries without reading files.

    Reinstalling the same packages changes it.
    """
    return of_installed(path, part=of_times) if is_library_folder(path) else of_times(path)


def of_times(path: str) -> str:
    """Fingerprint times, size and inode of a file without reading it."""
    try:
        found = _stat(path)
    except (OSError, ValueError):
        return ABSENT
    return f"{found.st_mtime_ns}:{found.st_ctime_ns}:{found.st_size}:{found.st_ino}"


def of_interpreter() -> str:
    """Return the version of this interpreter, and of the format."""
    return f"{'.'.join(str(part) for part in sys.version_info[:3])};{FORMAT}"
