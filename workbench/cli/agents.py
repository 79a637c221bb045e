"""What `workbench doctor` says of agents: what each needs that may be missing, and whether it can be reached."""

from __future__ import annotations

import asyncio
import re
import shlex
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from workbench.model.target import Target

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_PATIENCE = 10.0  # seconds for a server to say anything


@dataclass(frozen=True)
class Health:
    """What was found of one agent: lines to show below it, and what is wrong, one sentence each."""

    lines: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


def health_of(targets: Iterable[Target], *, ask: bool) -> Mapping[str, Health]:
    """The health of each target by its name. None of them runs; `ask`: those at a URL are asked for a sign of life."""
    targets = tuple(targets)
    signs = asyncio.run(_signs_of_life([target for target in targets if _has_url(target)])) if ask else {}
    return {target.name: _health(target, signs.get(target.name)) for target in targets}


def _health(target: Target, sign: Health | None) -> Health:
    parts = [*_program(target), *_module(target), *_framework(target), *_table(target), *_variables(target)]
    if _has_url(target):
        parts.append(sign or Health(lines=("whether it can be reached is asked with --check",)))
    lines = tuple(line for part in parts for line in part.lines)
    problems = tuple(f"{target.name}: {problem}" for part in parts for problem in part.problems)
    return Health(lines, problems)


def _has_url(target: Target) -> bool:
    from workbench.model.target import AgentKind

    return target.kind in (AgentKind.A2A, AgentKind.HTTP)


def _program(target: Target) -> Iterator[Health]:
    """The program of a command: looked for where the agent's process will look."""
    from workbench.engine.environment import environment_of
    from workbench.model.target import AgentKind

    if target.kind is not AgentKind.COMMAND:
        return
    name = shlex.split(target.location)[0]
    place = str(target.path / name) if "/" in name else name
    found = shutil.which(place, path=environment_of(target).get("PATH"))
    if found is None:
        yield Health(problems=(f"the program {name!r} is not there, or may not be run",))
    else:
        yield Health(lines=(f"runs {found}",))


def _module(target: Target) -> Iterator[Health]:
    """The module of an agent in Python: looked for, and not imported."""
    from importlib.util import find_spec

    from workbench.model.target import AgentKind

    if target.kind not in (AgentKind.FUNCTION, AgentKind.LANGCHAIN, AgentKind.AGENT_ENGINE) or target.runs_elsewhere:
        return
    module = target.location.partition(":")[0]
    file = target.path.joinpath(*module.split("."))
    if file.is_dir() or file.with_suffix(".py").is_file():
        return
    name = module.partition(".")[0]
    is_here = (target.path / name).is_dir() or (target.path / f"{name}.py").is_file()
    if is_here or (target.python is None and find_spec(name) is None):
        yield Health(problems=(f"there is no module {module} in {target.path}",))


def _table(target: Target) -> Iterator[Health]:
    """Templates and paths in the table of its kind."""
    from workbench.agents.tables import wrong_table

    wrong = wrong_table(target)
    if wrong is not None:
        yield Health(problems=(wrong,))


def _framework(target: Target) -> Iterator[Health]:
    """The extra that its adapter needs."""
    from importlib.util import find_spec

    from workbench.cli.doctor import missing_extra
    from workbench.model.target import AgentKind

    needs = {AgentKind.LANGCHAIN: ("langchain", "langchain_core"), AgentKind.A2A: ("a2a", "a2a")}
    if target.kind is AgentKind.AGENT_ENGINE and target.runs_elsewhere:
        needs = {AgentKind.AGENT_ENGINE: ("vertex", "google.auth")}
    if target.kind not in needs:
        return
    extra, module = needs[target.kind]
    if target.python is not None:
        yield Health(lines=(f"needs {module} in its own interpreter, which is not looked into",))
    elif find_spec(module) is None:
        yield Health(problems=(f"the extra {extra} is {missing_extra(extra)}",))


def _variables(target: Target) -> Iterator[Health]:
    """The environment variables that its settings name: which are set, never to what."""
    from workbench.engine.environment import environment_of

    texts = [target.location, *target.options.get("headers", {}).values()]
    names = dict.fromkeys(name for text in texts for name in _VARIABLE.findall(text))
    if not names:
        return
    environment = environment_of(target)
    missing = [name for name in names if not environment.get(name)]
    yield Health(
        lines=(f"takes {', '.join(names)} from the environment",),
        problems=tuple(f"the environment variable {name} is not set" for name in missing),
    )


async def _signs_of_life(targets: Iterable[Target]) -> Mapping[str, Health]:
    targets = tuple(targets)
    signs = await asyncio.gather(*(_sign_of_life(target) for target in targets))
    return {target.name: sign for target, sign in zip(targets, signs, strict=True)}


async def _sign_of_life(target: Target) -> Health:
    """Whether something answers at the URL. Any status will do: what the agent makes of a prompt is for runs to see."""
    import aiohttp

    from workbench.agents.worker.adapters.http.words import in_words
    from workbench.engine.environment import environment_of

    environment = environment_of(target)
    if any(not environment.get(name) for name in _VARIABLE.findall(target.location)):
        return Health()  # it is said that they are not set
    url = _VARIABLE.sub(lambda name: environment[name[1]], target.location)
    timeout = aiohttp.ClientTimeout(total=_PATIENCE)
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout, trust_env=True) as client,
            client.head(url, allow_redirects=False) as response,
        ):
            return Health(lines=(f"reached: something answers there (status {response.status})",))
    except TimeoutError:
        reason = f"no answer within {_PATIENCE:g} s"
    except (aiohttp.ClientError, OSError, ValueError) as error:
        reason = in_words(error) if isinstance(error, (aiohttp.ClientError, OSError)) else "it is no URL"
        for name in _VARIABLE.findall(target.location):
            reason = reason.replace(environment[name], f"${{{name}}}")
    return Health(lines=("not reached",), problems=(f"{target.location} cannot be reached: {reason}",))
