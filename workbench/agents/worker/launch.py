"""Start of a worker process: run by path, under the target's interpreter of any version.

It loads the package under a private name and removes its folder from `sys.path`, so that modules of the agent and ours
cannot be confused. `PYTHONPATH` is ignored until the agent is loaded: a `json.py` there is the agent's. The syntax
works in any Python 3, so that an old interpreter gets a clear error. Then it reads its configuration from stdin and
runs its role.
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
    _load_worker(folder)
    _run(path)


def _run(path):
    """Run the role that the engine assigns: `zygote` forks a child for each case, `shared` serves many cases.

    `path` is the `sys.path` for imports of libraries and the agent.
    """
    from _workbench_worker import loading  # type: ignore[import-not-found]

    loading.save_path(path)
    loading.install_source_loader()
    config = _read_config()
    if config["role"] == "zygote":  # imported before recording starts: what our imports probe is not the agent's
        from _workbench_worker.zygote import run  # type: ignore[import-not-found]
    else:
        from _workbench_worker.shared import run_spawned as run  # type: ignore[import-not-found]
    _record(config, path)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(encoding="utf-8", errors="backslashreplace", line_buffering=True)
    run(config)


def _record(config, path):
    from _workbench_worker.recording import hooks  # type: ignore[import-not-found]
    from _workbench_worker.recording.recorder import Recorder  # type: ignore[import-not-found]

    target_path = config["target"]["path"]
    recorder = Recorder(target_path, home=config.get("home", target_path))
    recorder.begin(path)
    hooks.install(recorder)


def _read_config():
    """Read one JSON object from stdin, and leave stdin empty. Others could see arguments and environment."""
    import json

    data = b"".join(iter(lambda: os.read(0, 1 << 16), b""))
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    return json.loads(data)


if __name__ == "__main__":
    _start()
