"""Loading of user code: folders on `sys.path`, modules from source, helpful errors."""

from __future__ import annotations

import importlib
import os
import sys
from importlib.machinery import (
    BYTECODE_SUFFIXES,
    EXTENSION_SUFFIXES,
    SOURCE_SUFFIXES,
    ExtensionFileLoader,
    FileFinder,
    ModuleSpec,
    SourceFileLoader,
    SourcelessFileLoader,
)
from types import ModuleType

from . import dotenv, wire
from .adapters.base import Adapter, LoadError, RecordedAdapter
from .recording import hooks
from .recording.fingerprints import digest
from .recording.instrument import Compiled, compile_source, get_compiled
from .recording.recorder import ImportedNames, quiet
from .recording.scope import is_workspace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_PYTHON_SUFFIXES = (*SOURCE_SUFFIXES, *BYTECODE_SUFFIXES)

_path: list[str] = []

compiled_here: list[str] = []
"""The agent's files that this process had to compile."""


class _SourceLoader(SourceFileLoader):
    """Reads the source every time: two saves of equal length within a second leave bytecode that only looks current.

    Compiles only files whose bytes differ from those compiled before the fork.
    """

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return _create_followed_module(spec, self.path)

    def get_code(self, fullname: str) -> Any:
        return _load_code(self, self.get_filename(fullname))


def _create_followed_module(spec: ModuleSpec, path: str) -> ModuleType | None:
    recorder = hooks.get_recorder()
    return None if recorder is None else recorder.create_module(spec.name, path)


def _load_code(loader: SourceFileLoader, path: str) -> Any:
    with quiet:
        source = loader.get_data(path)
        compiled = get_compiled(path, source)
        if compiled is None:
            compiled_here.append(path)
            compiled = _compile(loader, path, source)
        recorder = hooks.get_recorder()
        if recorder is not None:
            recorder.note_import(compiled)
    return compiled.code


def _compile(loader: SourceFileLoader, path: str, source: bytes) -> Compiled:
    if type(loader).source_to_code is not SourceFileLoader.source_to_code:  # it transforms the source
        changed = Compiled(path, source)
        changed.code = loader.source_to_code(source, path)
        return changed
    try:
        return compile_source(path, source)
    except Exception:  # usually a syntax error
        recorder = hooks.get_recorder()
        if recorder is not None:
            recorder.note_load(path, digest(source))
        raise


def _read_other_loaders_from_source() -> None:
    """Make loaders that do not come from our finder (`spec_from_file_location`, import hooks) load in the same way."""
    get_code = SourceFileLoader.get_code

    def get_workspace_code(self: SourceFileLoader, fullname: str) -> Any:
        path = self.get_filename(fullname)
        return _load_code(self, path) if is_workspace(path) else get_code(self, fullname)

    create_module = SourceFileLoader.create_module

    def create_workspace_module(self: SourceFileLoader, spec: ModuleSpec) -> ModuleType | None:
        return _create_followed_module(spec, self.path) if is_workspace(self.path) else create_module(self, spec)

    SourceFileLoader.get_code = get_workspace_code  # type: ignore[method-assign,assignment]
    SourceFileLoader.create_module = create_workspace_module  # type: ignore[method-assign,assignment]


def compile_early(paths: list[str]) -> None:
    """Compile files of the agent without running them, so that children find unchanged files compiled."""
    for path in paths:
        try:
            with quiet:
                compile_source(path, _SourceLoader("", path).get_data(path))
        except (OSError, SyntaxError, ValueError):  # the child that imports it reports the error
            continue


def save_path(path: list[str]) -> None:
    """Save the `sys.path` that applies once the worker has imported its own modules."""
    _path[:] = path


def restore_path() -> None:
    """Set `sys.path` to that of the interpreter, `PYTHONPATH` included: imports are the agent's from now on."""
    sys.path[:] = _path


def make_adapter(target: dict[str, Any]) -> Adapter:
    if target["kind"] == "recorded":
        return RecordedAdapter(target)
    module = importlib.import_module(f"{__package__}.adapters.{target['kind']}")
    adapter: Adapter = module.Adapter(target)
    return adapter


def import_libraries(adapter: Adapter) -> None:
    """Import the libraries that the adapter itself needs, unrecorded: no verdict depends on them."""
    with quiet:
        adapter.import_libraries()


def import_model_libraries(adapter: Adapter) -> None:
    """Import the libraries with which the adapter intercepts model calls, unrecorded as well."""
    with quiet:
        adapter.import_model_libraries()


_entered = False


def has_entered() -> bool:
    """Return True if this process runs the agent."""
    return _entered


def enter(adapter: Adapter) -> None:
    """Make this process the agent's: its folder, environment and import path. No code of the agent runs yet."""
    global _entered  # noqa: PLW0603 - there is one process
    _entered = True
    import_libraries(adapter)
    roots = [os.path.abspath(root) for root in adapter.import_roots()]
    home = adapter.target["path"]
    try:
        os.chdir(home)
    except OSError as error:
        raise LoadError(f"the agent's folder {home} cannot be entered: {error.strerror}") from None
    restore_path()
    files = adapter.env_files()
    with quiet:
        dotenv.load(files)
        sys.dont_write_bytecode = True
    _import_framework(adapter)
    with quiet:
        imported = _get_imported_names()
        _forget_shadowed_modules(roots)
        sys.path[:0] = roots
        recorder = hooks.get_recorder()
        if recorder is not None:
            recorder.enter(roots, env_files=files, defined=dotenv.effective(files, {}), imported=imported)
            hooks.put_import_observer_first(recorder)


def _import_framework(adapter: Adapter) -> None:
    """Import the framework before the agent's folders are on the path: a folder `calendar` of the agent must not
    replace a module that the framework uses.

    Imports before the fork, and the framework's own tools, behave in the same way.
    """
    for name in adapter.preload:
        try:
            importlib.import_module(name)
        except Exception:  # the agent gets the same error and reports it
            return


_imported: tuple[int, ImportedNames] | None = None


def cache_imported_names() -> None:
    """Collect imported names and recorded rows before the fork: in children that would copy many memory pages."""
    global _imported  # noqa: PLW0603 - there is one process
    if not _entered:
        _imported = (len(sys.modules), _collect_replaceable_names())
    wire.encode_inherited()


def _get_imported_names() -> ImportedNames:
    """Return the imported top-level modules that files in the agent's folders would replace."""
    if _imported is not None and _imported[0] == len(sys.modules):
        return _imported[1]
    return _collect_replaceable_names()


def list_imported_names() -> list[str]:
    """List the imported top-level modules that files in the agent's folders would replace."""
    return _collect_replaceable_names().joined.split(",")


def _collect_replaceable_names() -> ImportedNames:
    return ImportedNames(
        name for name in {name.split(".", 1)[0] for name in list(sys.modules)} if _is_replaceable(name)
    )


def find_shadowed_names(roots: list[str]) -> set[str]:
    """Return the top-level names that the agent's folders provide. They take precedence on `sys.path`."""
    names = set()
    with quiet:
        for root in roots:
            try:
                entries = os.listdir(root)
            except OSError:
                continue
            for entry in entries:
                base = entry.split(".", 1)[0]
                if base and (entry.endswith((*_PYTHON_SUFFIXES, *EXTENSION_SUFFIXES)) or _is_package(root, entry)):
                    names.add(base)
    return names


def _is_package(root: str, entry: str) -> bool:
    return "." not in entry and any(
        os.path.isfile(os.path.join(root, entry, f"__init__{suffix}")) for suffix in _PYTHON_SUFFIXES
    )


def _forget_shadowed_modules(roots: list[str]) -> None:
    """Forget imported modules whose names the agent uses for its own, so that they are imported from its folders.

    Our modules keep what they imported. Modules that we may import later are imported first, while names still resolve.
    """
    names = find_shadowed_names(roots)
    if names.isdisjoint(sys.stdlib_module_names) and not any(map(_is_replaceable, names)):
        return
    import asyncio  # noqa: F401
    import concurrent.futures.thread  # noqa: F401
    import inspect  # noqa: F401
    import traceback  # noqa: F401

    shadowed = {name for name in names if _is_replaceable(name)}
    for name in list(sys.modules):
        if name.split(".", 1)[0] in shadowed:
            del sys.modules[name]


def _is_replaceable(name: str) -> bool:
    """Return True if a module of that name is looked up in files: not built in, frozen, or ours."""
    if name in ("__main__", "importlib", str(__package__)) or name in sys.builtin_module_names:
        return False
    spec = getattr(sys.modules.get(name), "__spec__", None)
    return spec is not None and spec.origin != "frozen"


def install_source_loader() -> None:
    """Compile modules that may be edited from source, whatever bytecode exists.

    Called once, before anything of the agent or its libraries is imported.
    """

    def hook(path: str) -> Any:
        if not is_workspace(path):
            raise ImportError(path)
        return make_finder(path)

    make_finder = FileFinder.path_hook(
        (ExtensionFileLoader, EXTENSION_SUFFIXES),
        (_SourceLoader, SOURCE_SUFFIXES),
        (SourcelessFileLoader, BYTECODE_SUFFIXES),  # if there is no source; opening it is recorded
    )
    sys.path_hooks.insert(0, hook)
    _read_other_loaders_from_source()
    for path in [path for path in sys.path_importer_cache if is_workspace(path)]:
        del sys.path_importer_cache[path]


def find_object(location: str, roots: list[str], *, wanted: str) -> Any:
    """Return the object at `package.module:name.of.attribute`; `wanted` names its purpose in errors. Raises
    LoadError."""
    module_name, colon, attribute = location.partition(":")
    if not (colon and module_name and attribute):
        raise LoadError(f"{location!r} does not name {wanted}: expected package.module:name")
    value = import_user_module(module_name, roots)
    place = module_name
    for name in attribute.split("."):
        try:
            value = getattr(value, name)
        except AttributeError:
            near = suggest_name(name, [key for key in dir(value) if not key.startswith("__")])
            raise LoadError(f"{place} has no attribute {name!r}{near}") from None
        place = f"{place}.{name}"
    return value


def import_user_module(name: str, roots: list[str]) -> Any:
    """Import a module of the agent. Raises LoadError if it does not exist; its own exceptions propagate."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if name != missing and not name.startswith(missing + "."):
            raise  # the module exists; one that it imports does not
        parent, _, last = missing.rpartition(".")
        folders = list(getattr(sys.modules.get(parent), "__path__", ())) if parent else roots
        with quiet:
            near = suggest_name(last, _list_modules(folders))
        raise LoadError(f"there is no module {missing!r} in {os.pathsep.join(folders) or parent}{near}") from None


def suggest_name(name: str, candidates: list[str], *, likeness: float = 0.6) -> str:
    """Return `; did you mean ...?` for the most similar candidate, or an empty string. `likeness` is 1 for equal
    names."""
    import difflib

    found = difflib.get_close_matches(name, candidates, n=1, cutoff=likeness)
    return f"; did you mean {found[0]!r}?" if found else ""


def _list_modules(folders: list[str]) -> list[str]:
    names = set()
    for folder in folders:
        try:
            entries = list(os.scandir(folder))
        except OSError:
            continue
        for entry in entries:
            stem, suffix = os.path.splitext(entry.name)
            if suffix == ".py" or (entry.is_dir() and stem.isidentifier()):
                names.add(stem)
    return sorted(names - {"__init__", "__pycache__"})
