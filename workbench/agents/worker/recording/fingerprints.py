"""How things are, in a few characters that are equal exactly when they are the same: files, folders, names, variables.

The worker computes them when a case reads something, the engine when it wants to know whether that is still so.
PROTOCOL.md says which of them stands in which row.
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
    from typing import Callable, Collection, Dict, Iterable, List, Mapping, Optional, Set

FORMAT = 3
"""Raised by one whenever a fingerprint would come out differently for what is the same, or rows are recorded anew."""

ABSENT = "absent"
"""What is not there."""

IGNORED = frozenset((".git", ".workbench", ".adk", "__pycache__"))
"""Folders nothing in which is recorded, and which count in no listing: others keep their own books there."""

LIBRARIES = frozenset(("site-packages", "dist-packages"))
"""Folders in which libraries are installed, by name."""

_UNREADABLE = "unreadable"
_LARGEST = 64 * 1024 * 1024  # bytes: of a larger file the times of its last change count instead
_PIECE = 1 << 20
_INSTALLED = (".dist-info", ".egg-info", ".egg-link", ".pth")
_UNFINISHED = 60.0  # seconds; what an installation left unfinished for longer was given up
_EXTENSIONS = (".so", ".pyd")

# Variables that differ from one terminal, session or CI job to the next and say nothing of what an agent is to do.
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

_stat, _lstat, _listdir, _readlink = os.stat, os.lstat, os.listdir, os.readlink  # the recorder wraps some of them
_scandir = os.scandir


def digest(data: bytes) -> str:
    """The first 16 hex digits of SHA-256."""
    return hashlib.sha256(data).hexdigest()[:16]


def of_file(path: str) -> str:
    """What a file holds."""
    try:
        found = _stat(path)
        if stat.S_ISDIR(found.st_mode):
            return "folder"
        if not stat.S_ISREG(found.st_mode):
            return "special"  # reading a pipe or a device would wait, or change it
        if found.st_size > _LARGEST:
            return f"~{found.st_size}:{found.st_mtime_ns}:{found.st_ctime_ns}"
        hashed = hashlib.sha256()
        with open(path, "rb", buffering=0) as stream:
            while piece := stream.read(_PIECE):
                hashed.update(piece)
    except (FileNotFoundError, NotADirectoryError, ValueError):  # ValueError: no file can have such a name
        return ABSENT
    except OSError:
        return _UNREADABLE
    return hashed.hexdigest()[:16]


def of_folder(path: str, *, without: Collection[str] = (), gone: Collection[str] = ()) -> str:
    """The names in a folder, except some; of folders as such. See `of_names`."""
    try:
        names = names_in(path)
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return ABSENT
    except OSError:
        return _UNREADABLE
    return of_names(names, without=without, gone=gone)


def names_in(path: str) -> List[str]:
    """The names in a folder, those of folders with a slash behind them. Raises OSError and ValueError."""
    with _scandir(path) as entries:
        return [f"{entry.name}/" if _is_folder_entry(entry) else entry.name for entry in entries]


def _is_folder_entry(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False


def of_names(names: Iterable[str], *, without: Collection[str] = (), gone: Collection[str] = ()) -> str:
    """The same for a folder that was listed already. That names are `gone` that would not count tells, too."""
    left_out = IGNORED.union(without)
    counted = [os.fsencode(name) for name in names if name.rstrip("/") not in left_out]
    counted += [b"/" + os.fsencode(name) for name in gone]  # no name begins like this
    return digest(b"\0".join(sorted(counted)))


def of_probe(path: str) -> str:
    """What is there: `file`, `folder` or `absent`. A symbolic link counts for where it leads, and for itself too."""
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
    except OSError:  # gone meanwhile
        return ABSENT


def of_time(path: str) -> str:
    """When what is there was last changed."""
    found = _found(path)
    return ABSENT if found is None else str(found.st_mtime_ns)


def of_mode(path: str) -> str:
    """Of what kind it is, who may do what with it, and whose it is."""
    found = _found(path)
    return ABSENT if found is None else f"{found.st_mode:o}:{found.st_uid}:{found.st_gid}"


def _found(path: str) -> Optional[os.stat_result]:
    try:
        return _stat(path)
    except (OSError, ValueError):
        return None


def of_import(folder: str, names: Iterable[str]) -> str:
    """What an import finds in a folder under each of the names.

    As the import system looks, except that it is not asked which extension modules this interpreter loads.
    """
    there = _names_in(folder) or frozenset()
    extensions = _extensions(there)
    return ",".join(_module_at(folder, name, there, extensions) for name in names)


IMPORTED = frozenset(("package", "bytecode package", "extension", "extension+module", "module", "bytecode"))
"""What `of_import` finds that an import takes without looking further."""


def may_import(folder: str) -> Set[str]:
    """Names under which an import may find something in a folder: under any other it finds nothing."""
    return {entry.split(".", 1)[0] for entry in _names_in(folder) or ()}


def _module_at(folder: str, name: str, there: Collection[str], extensions: Collection[str]) -> str:
    inside = _names_in(os.path.join(folder, name)) if name in there else None
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


def _names_in(folder: str) -> Optional[Collection[str]]:
    try:
        return frozenset(_listdir(folder))
    except (OSError, ValueError):
        return None


def _extensions(names: Iterable[str]) -> Collection[str]:
    """The modules among files of these names that are written in another language."""
    return frozenset(name.split(".", 1)[0] for name in names if name.endswith(_EXTENSIONS))


def _is_folder(path: str) -> bool:
    try:
        return stat.S_ISDIR(_stat(path).st_mode)
    except OSError:
        return False


def secret_of(target_path: str) -> bytes:
    """What the values of variables are hashed with, so that nobody can look them up in a table."""
    return hashlib.sha256(os.fsencode(target_path)).digest()


def of_variable(secret: bytes, value: Optional[str]) -> str:
    """The value of an environment variable; None where it is not set."""
    if value is None:
        return ABSENT
    return _keyed(secret, value)


def of_variables(secret: bytes, values: Mapping[str, str]) -> str:
    """Names and values of several variables."""
    return _keyed(secret, "\0".join(f"{name}={values[name]}" for name in sorted(values)))


def which_count(what: str, values: Mapping[str, str], *, defined: Collection[str]) -> Dict[str, str]:
    """The variables that count where several are read at once; `defined` are those that `.env` files define.

    `all`: those and what else is set, but for what differs from session to session. `proxies`: those of the network.
    `locale`: what C libraries look at by themselves, the time zone and what `.env` files say of the locale. Names
    behind that, joined by NUL, are left out.
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


def _keyed(secret: bytes, text: str) -> str:
    return hmac.digest(secret, text.encode("utf-8", "surrogateescape"), "sha256").hex()[:16]


def of_installed(folder: str, *, part: Callable[[str], str] = of_file) -> str:
    """Which distributions a folder holds: their names, versions, files and where editable ones lie.

    The files by RECORD, which has the hash of each. `part` gives the fingerprint of a file that tells of a
    distribution, or of `pyvenv.cfg`, which tells where else there are some.
    """
    try:
        names = _listdir(folder)
    except NotADirectoryError:
        return part(folder)
    except OSError:
        return ABSENT
    told = [name for name in names if name.endswith(_INSTALLED) or name.startswith("__editable__")]
    if is_library_folder(folder):
        parts = [os.path.join(name, "RECORD") if name.endswith(".dist-info") else name for name in told]
        told = [*names, *(f"{name}\0{part(os.path.join(folder, name))}" for name in parts)]
    return of_names(told)


def is_library_folder(path: str) -> bool:
    """Whether libraries are installed in a folder."""
    return os.path.basename(path) in LIBRARIES


def is_being_installed(folder: str) -> bool:
    """Whether an installation in a folder began a short time ago and is not complete.

    RECORD is written last, and what is replaced has a name with `~` until then.
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
    """What changes when an interpreter, its settings, or what a folder of libraries holds is changed: nothing is read.

    The same packages give something else where they were installed at another time.
    """
    return of_installed(path, part=of_times) if is_library_folder(path) else of_times(path)


def of_times(path: str) -> str:
    """What changes when a file is changed, without reading it."""
    try:
        found = _stat(path)
    except (OSError, ValueError):
        return ABSENT
    return f"{found.st_mtime_ns}:{found.st_ctime_ns}:{found.st_size}:{found.st_ino}"


def of_interpreter() -> str:
    """The version of the interpreter that runs this, and of the format."""
    return f"{'.'.join(str(part) for part in sys.version_info[:3])};{FORMAT}"
