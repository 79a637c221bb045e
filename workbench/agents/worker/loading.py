"""How user code gets into a process: its folders on `sys.path`, always from source, with errors that help."""

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

from . import dotenv
from .adapters.base import Adapter, LoadError
from .recording import hooks, telling
from .recording.fingerprints import digest
from .recording.instrument import Compiled, compile_source, known
from .recording.recorder import Names, quiet
from .recording.scope import is_workspace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Optional, Tuple

_PYTHON_SUFFIXES = (*SOURCE_SUFFIXES, *BYTECODE_SUFFIXES)

_path: List[str] = []

compiled_here: List[str] = []
"""The agent's files that this process had to compile."""


class _SourceLoader(SourceFileLoader):
    """Reads every time: two saves of equal length within a second leave bytecode that looks fresh and is not.

    Compiles only what is not, to the byte, what was compiled before the fork.
    """

    def create_module(self, spec: ModuleSpec) -> Optional[ModuleType]:
        return _module_for(spec, self.path)

    def get_code(self, fullname: str) -> Any:
        return _code_of(self, self.get_filename(fullname))


def _module_for(spec: ModuleSpec, path: str) -> Optional[ModuleType]:
    recorder = hooks.active()
    return None if recorder is None else recorder.module_for(spec.name, path)


def _code_of(loader: SourceFileLoader, path: str) -> Any:
    with quiet:
        source = loader.get_data(path)
        compiled = known(path, source)
        if compiled is None:
            compiled_here.append(path)
            compiled = _compile(loader, path, source)
        recorder = hooks.active()
        if recorder is not None:
            recorder.imported(compiled)
    return compiled.code


def _compile(loader: SourceFileLoader, path: str, source: bytes) -> Compiled:
    if type(loader).source_to_code is not SourceFileLoader.source_to_code:  # one that changes what it loads
        changed = Compiled(path, source)
        changed.code = loader.source_to_code(source, path)
        return changed
    try:
        return compile_source(path, source)
    except Exception:  # no Python, as a rule
        recorder = hooks.active()
        if recorder is not None:
            recorder.loaded(path, digest(source))
        raise


def _read_other_loaders_from_source() -> None:
    """Loaders that did not come from our finder (`spec_from_file_location`, import hooks) load in the same way."""
    get_code = SourceFileLoader.get_code

    def get_workspace_code(self: SourceFileLoader, fullname: str) -> Any:
        path = self.get_filename(fullname)
        return _code_of(self, path) if is_workspace(path) else get_code(self, fullname)

    create_module = SourceFileLoader.create_module

    def create_workspace_module(self: SourceFileLoader, spec: ModuleSpec) -> Optional[ModuleType]:
        return _module_for(spec, self.path) if is_workspace(self.path) else create_module(self, spec)

    SourceFileLoader.get_code = get_workspace_code  # type: ignore[method-assign,assignment]
    SourceFileLoader.create_module = create_workspace_module  # type: ignore[method-assign,assignment]


def compile_early(paths: List[str]) -> None:
    """Compile files of the agent, without running them, so that children find it done where the text is the same."""
    for path in paths:
        try:
            with quiet:
                compile_source(path, _SourceLoader("", path).get_data(path))
        except (OSError, SyntaxError, ValueError):  # changed meanwhile: the child that imports it says so
            continue


def set_path(path: List[str]) -> None:
    """Remember what `sys.path` is to be once nothing of ours is imported any more."""
    _path[:] = path


def open_path() -> None:
    """From now on imports are for the agent's sake: `sys.path` is what its interpreter has, `PYTHONPATH` included."""
    sys.path[:] = _path


def make_adapter(target: Dict[str, Any]) -> Adapter:
    """The adapter for the target's kind."""
    module = importlib.import_module(f"{__package__}.adapters.{target['kind']}")
    adapter: Adapter = module.Adapter(target)
    return adapter


def import_own(adapter: Adapter) -> None:
    """Have imported what the adapter needs for itself. No verdict depends on it."""
    with quiet:
        adapter.import_own()


_entered = False


def has_entered() -> bool:
    """Whether this process is the agent's."""
    return _entered


def enter(adapter: Adapter) -> None:
    """Make this process the agent's: its folder, its environment, its imports. Nothing of the agent runs yet."""
    global _entered  # noqa: PLW0603 - there is one process
    _entered = True
    import_own(adapter)
    roots = [os.path.abspath(root) for root in adapter.import_roots()]
    home = adapter.target["path"]
    try:
        os.chdir(home)
    except OSError as error:
        raise LoadError(f"the agent's folder {home} cannot be entered: {error.strerror}") from None
    open_path()
    files = adapter.env_files()
    with quiet:
        dotenv.load(files)
        sys.dont_write_bytecode = True
    _import_framework(adapter)
    with quiet:
        imported = _imported_names()
        _forget_shadowed_modules(roots)
        sys.path[:0] = roots
        recorder = hooks.active()
        if recorder is not None:
            recorder.enter(roots, env_files=files, defined=dotenv.effective(files, {}), imported=imported)
            hooks.stay_first(recorder)


def _import_framework(adapter: Adapter) -> None:
    """Import it before the agent's folders count: a folder `calendar` of the agent's is none of its business.

    So it is where the import was done before the fork, and in the framework's own tools.
    """
    for name in adapter.preload:
        try:
            importlib.import_module(name)
        except Exception:  # the agent meets it again and reports it
            return


_imported: Optional[Tuple[int, Names]] = None


def settle() -> None:
    """Find out before the fork what is imported and was recorded: children would copy many pages of memory for it."""
    global _imported  # noqa: PLW0603 - there is one process
    if not _entered:
        _imported = (len(sys.modules), _replaceable_names())
    telling.settle()


def _imported_names() -> Names:
    """Top-level modules that are here, and that files in the agent's folders would replace."""
    if _imported is not None and _imported[0] == len(sys.modules):
        return _imported[1]
    return _replaceable_names()


def imported_names() -> List[str]:
    """Top-level modules that this process has imported, and that files in the agent's folders would replace."""
    return _replaceable_names().joined.split(",")


def _replaceable_names() -> Names:
    return Names(name for name in {name.split(".", 1)[0] for name in list(sys.modules)} if _is_replaceable(name))


def shadowed_names(roots: List[str]) -> set[str]:
    """Top-level names that the agent's folders provide: theirs come first once the roots are on `sys.path`."""
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


def _forget_shadowed_modules(roots: List[str]) -> None:
    """Modules that we imported and whose names the agent uses for its own are imported again, from its folders.

    Ours keep the module they have. What we may import later is imported before, while its own imports still resolve.
    """
    shadowed = {name for name in shadowed_names(roots) if _is_replaceable(name)}
    if not shadowed:
        return
    import asyncio  # noqa: F401
    import concurrent.futures.thread  # noqa: F401
    import inspect  # noqa: F401
    import traceback  # noqa: F401

    for name in list(sys.modules):
        if name.split(".", 1)[0] in shadowed:
            del sys.modules[name]


def _is_replaceable(name: str) -> bool:
    """Whether a module of that name would be looked for in files: not if it is built in, frozen, or ours."""
    if name in ("__main__", "importlib", str(__package__)) or name in sys.builtin_module_names:
        return False
    spec = getattr(sys.modules.get(name), "__spec__", None)
    return spec is not None and spec.origin != "frozen"


def read_from_source() -> None:
    """Have modules that may be edited compiled from source, if they have any, whatever bytecode lies beside them.

    Called once, before anything of the agent or its libraries is imported.
    """

    def hook(path: str) -> Any:
        if not is_workspace(path):
            raise ImportError(path)
        return make_finder(path)

    make_finder = FileFinder.path_hook(
        (ExtensionFileLoader, EXTENSION_SUFFIXES),
        (_SourceLoader, SOURCE_SUFFIXES),
        (SourcelessFileLoader, BYTECODE_SUFFIXES),  # where there is no source; that it is opened is recorded
    )
    sys.path_hooks.insert(0, hook)
    _read_other_loaders_from_source()
    for path in [path for path in sys.path_importer_cache if is_workspace(path)]:
        del sys.path_importer_cache[path]


def find_object(location: str, roots: List[str], *, wanted: str) -> Any:
    """The object at `package.module:name.of.attribute`; `wanted` says what for, in errors. Raises LoadError."""
    module_name, colon, attribute = location.partition(":")
    if not (colon and module_name and attribute):
        raise LoadError(f"{location!r} does not name {wanted}: expected package.module:name")
    value = import_user_module(module_name, roots)
    place = module_name
    for name in attribute.split("."):
        try:
            value = getattr(value, name)
        except AttributeError:
            near = nearest(name, [key for key in dir(value) if not key.startswith("__")])
            raise LoadError(f"{place} has no attribute {name!r}{near}") from None
        place = f"{place}.{name}"
    return value


def import_user_module(name: str, roots: List[str]) -> Any:
    """Import a module of the agent. LoadError where it is not there; what the module itself raises goes through."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if name != missing and not name.startswith(missing + "."):
            raise  # the module is there; something that it imports is not
        parent, _, last = missing.rpartition(".")
        folders = list(getattr(sys.modules.get(parent), "__path__", ())) if parent else roots
        with quiet:
            near = nearest(last, _modules_in(folders))
        raise LoadError(f"there is no module {missing!r} in {os.pathsep.join(folders) or parent}{near}") from None


def nearest(name: str, candidates: List[str], *, likeness: float = 0.6) -> str:
    """`; did you mean ...?` for the candidate most like the name, or nothing. `likeness` is 1 for equal names."""
    import difflib

    found = difflib.get_close_matches(name, candidates, n=1, cutoff=likeness)
    return f"; did you mean {found[0]!r}?" if found else ""


def _modules_in(folders: List[str]) -> List[str]:
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
