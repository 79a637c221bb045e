"""Entry point of a worker process: run by path, under the target's interpreter of any version.

It loads the package under a private name and removes its folder from `sys.path`, so that modules of the agent and ours
cannot be confused. `PYTHONPATH` is ignored until the agent is loaded: a `json.py` there is the agent's. The syntax
works in any Python 3, so that an old interpreter gets a clear error.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
# mypy: disable-error-code="arg-type,union-attr"

import os
import sys


def _load_worker(folder):
    from importlib.util import module_from_spec, spec_from_file_location

    name = "_workbench_worker"
    spec = spec_from_file_location(name, os.path.join(folder, "__init__.py"), submodule_search_locations=[folder])
    module = module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    from _workbench_worker import startup  # type: ignore[import-not-found]

    return startup


def _start():
    if sys.version_info < (3, 10):
        sys.stderr.write("it is Python %d.%d.%d, expected Python 3.10 or newer\n" % sys.version_info[:3])
        sys.exit(1)
    folder = os.path.dirname(os.path.abspath(__file__))
    if not getattr(sys.flags, "safe_path", False):
        del sys.path[0]
    foreign = [os.path.abspath(entry) for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
    path = list(sys.path)
    sys.path[:] = [entry for entry in path if os.path.abspath(entry) not in foreign]
    _load_worker(folder).run(path)


if __name__ == "__main__":
    _start()
