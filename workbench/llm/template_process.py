"""Renders one template of a user in a process of its own, with limits for time and memory.

Run by its path with `python -I`; imports no module of workbench. Its input is a JSON object: `text`, the template;
`data`, the values for it, or null to get only the names that it needs; `path`, further folders to import from. The
answer is a JSON object with `text`, with `names`, or with `problem`.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jinja2.sandbox import SandboxedEnvironment

CALLABLE = "\0callable"
"""The only key of an object that represents a function without parameters; its value is the return value."""

SECONDS_AT_MOST = 1
"""Processor time of one template."""

LENGTH_AT_MOST = 1_000_000
"""The maximum length of a rendered template, in characters."""

_BYTES_AT_MOST = 1 << 30


def make_environment() -> SandboxedEnvironment:
    """Make the environment in which templates of users are parsed and rendered."""
    from jinja2 import StrictUndefined
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    # Not HTML: nothing is escaped. Prompts enclose data from outside in marks.
    environment = ImmutableSandboxedEnvironment(
        undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=False, autoescape=False
    )
    # Templates for ADK apply it to texts of personas, which are already rendered here.
    environment.filters["render_string_filter"] = str
    return environment


def main() -> None:
    """Answer the one request."""
    request = json.load(sys.stdin)
    sys.path.extend(folder for folder in request["path"] if folder not in sys.path)
    environment = make_environment()
    _set_limits()
    try:
        answer = _answer_request(environment, request)
    except MemoryError:
        answer = {"problem": "needs too much memory"}
    except RecursionError:
        answer = {"problem": "too deeply nested"}
    except Exception as error:  # a template is code of the user
        line = getattr(error, "lineno", None)
        place = "" if line is None else f"line {line}: "
        answer = {"problem": f"{place}{str(error) or type(error).__name__}"[:2000]}
    json.dump(answer, sys.stdout)


def _answer_request(environment: SandboxedEnvironment, request: dict[str, Any]) -> dict[str, Any]:
    from jinja2 import meta

    if request["data"] is None:
        return {"names": sorted(meta.find_undeclared_variables(environment.parse(request["text"])))}
    text = environment.from_string(request["text"]).render(**_deserialize_functions(request["data"]))
    if len(text) > LENGTH_AT_MOST:
        return {"problem": f"gives {len(text):,} characters, expected at most {LENGTH_AT_MOST:,}"}
    return {"text": text}


def _deserialize_functions(value: Any) -> Any:
    if isinstance(value, dict):
        if set(value) == {CALLABLE}:
            return lambda: value[CALLABLE]
        return {key: _deserialize_functions(item) for key, item in value.items()}
    return [_deserialize_functions(item) for item in value] if isinstance(value, list) else value


def _set_limits() -> None:
    try:
        import resource
    except ImportError:  # Windows has only the time limit of the caller
        return
    usage = resource.getrusage(resource.RUSAGE_SELF)
    seconds = int(usage.ru_utime + usage.ru_stime) + SECONDS_AT_MOST
    limits = ((resource.RLIMIT_CPU, seconds), (resource.RLIMIT_AS, _BYTES_AT_MOST), (resource.RLIMIT_CORE, 0))
    for limit, most in limits:
        hard = resource.getrlimit(limit)[1]
        soft_limit = most if hard == resource.RLIM_INFINITY else min(most, hard)
        try:
            resource.setrlimit(limit, (soft_limit, hard))
        except (OSError, ValueError):  # macOS has no limit of memory
            continue


if __name__ == "__main__":
    main()
