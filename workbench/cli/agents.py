"""What `workbench doctor` says of agents: what each needs that may be missing, and whether it can be reached."""

from __future__ import annotations

import asyncio
import re
import shlex
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from workbench.model.target import AgentKind

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
    """The health of each target by its name. None of them is asked anything; `ask`: those that are reached otherwise
    than by importing them are looked for."""
    targets = tuple(targets)
    found = {target.name: tuple(_setting_up(target)) for target in targets}
    # What cannot start as it stands is not tried: it is said why.
    sound = [target for target in targets if not any(part.problems for part in found[target.name])]
    signs = asyncio.run(_signs_of_life([target for target in sound if _can_be_checked(target)])) if ask else {}
    return {target.name: _health(target, found[target.name], signs.get(target.name), asked=ask) for target in targets}


def _setting_up(target: Target) -> Iterator[Health]:
    """What can be seen from here."""
    for look in (_program, _recording, _module, _framework, _table, _variables):
        yield from look(target)


def _health(target: Target, parts: Sequence[Health], sign: Health | None, *, asked: bool) -> Health:
    if sign is not None:
        parts = (*parts, sign)
    elif _can_be_checked(target) and not asked:
        verb = "starts" if target.kind is AgentKind.COMMAND else "can be reached"
        parts = (*parts, Health(lines=(f"whether it {verb} is asked with --check",)))
    lines = tuple(line for part in parts for line in part.lines)
    problems = tuple(f"{target.name}: {problem}" for part in parts for problem in part.problems)
    return Health(lines, problems)


def _can_be_checked(target: Target) -> bool:
    return target.kind in (AgentKind.A2A, AgentKind.HTTP, AgentKind.COMMAND)


def _program(target: Target) -> Iterator[Health]:
    """The program of a command: looked for where the agent's process will look."""
    from workbench.engine.environment import environment_of

    if target.kind is not AgentKind.COMMAND:
        return
    name = shlex.split(target.location)[0]
    place = str(target.path / name) if "/" in name else name
    found = shutil.which(place, path=environment_of(target).get("PATH"))
    if found is None:
        yield Health(problems=(f"the program {name!r} is not there, or may not be run",))
    else:
        yield Health(lines=(f"runs {found}",))


def _recording(target: Target) -> Iterator[Health]:
    """The file with what was recorded, where one stands for all sets; datasets among the sets are looked at as such."""
    from workbench.model.text import counted
    from workbench.store.datasets import read_recorded
    from workbench.store.discovery import recordings_in
    from workbench.store.errors import StoreError

    path = recordings_in(target)
    if path is None:
        return
    try:
        recorded = read_recorded(path, columns=dict(target.columns))
    except StoreError as error:
        yield Health(problems=(str(error),))
        return
    wrong = tuple(case.problem for case in recorded.cases if case.problem is not None)
    holds = f"holds {counted(len(recorded.cases), 'recorded case')}"
    yield Health(lines=(holds,), problems=(*recorded.problems, *wrong[:1]))


def _module(target: Target) -> Iterator[Health]:
    """The module of an agent in Python: looked for, and not imported."""
    from importlib.util import find_spec

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

    if target.kind is AgentKind.ADK:
        yield from _adk(target)
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


def _adk(target: Target) -> Iterator[Health]:
    """Whether the target's interpreter has a google-adk that can be used. Nothing is run for that."""
    from importlib.metadata import distributions

    from workbench.agents.worker.adapters.adk.release import wrong_version
    from workbench.cli.doctor import missing_extra

    folders = sys.path
    if target.python is not None:
        environment = target.python.parent.parent  # where a virtual environment has its interpreter in bin or Scripts
        folders = [*map(str, environment.glob("lib/python3*/site-packages")), str(environment / "Lib/site-packages")]
        if not (environment / "pyvenv.cfg").is_file() or "true" in _system_packages(environment):
            yield Health(lines=("needs google-adk in its own interpreter, which is not looked into",))
            return
    found = next((each.version for each in distributions(name="google-adk", path=folders)), None)
    if found is not None:
        problem = wrong_version(found)
        yield Health(problems=() if problem is None else (f"{problem} (in {target.python or sys.executable})",))
    elif target.python is None:
        yield Health(problems=(f"the extra adk is {missing_extra('adk')}",))
    else:
        yield Health(problems=(f"google-adk is not installed for its interpreter {target.python}",))


def _system_packages(environment: Path) -> str:
    """Whether a virtual environment sees the packages of the interpreter it was made from: `true` or `false`."""
    lines = (environment / "pyvenv.cfg").read_text(encoding="utf-8", errors="replace").splitlines()
    values = (line.partition("=")[2] for line in lines if line.startswith("include-system-site-packages"))
    return next(values, "false").strip().lower()


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
    asks = {AgentKind.HTTP: _sign_of_url, AgentKind.A2A: _sign_of_session, AgentKind.COMMAND: _sign_of_session}
    signs = await asyncio.gather(*(asks[target.kind](target) for target in targets))
    return {target.name: sign for target, sign in zip(targets, signs, strict=True)}


async def _sign_of_session(target: Target) -> Health:
    """Whether a session opens and closes without a turn: a program starts and ends with its input, a card is there."""
    from workbench.agents.host import AgentError, SessionRequest, host_for
    from workbench.engine.case import DEFAULT_USER

    host = host_for(target, isolation="case", concurrency=1)
    request = SessionRequest(app_name=target.name, user_id=DEFAULT_USER, collect_spans=False)
    session = await host.open(request, on_span=lambda _: None)
    try:
        async with asyncio.timeout(_PATIENCE):
            part = (await session.describe()).agents[0]
            await session.finish()
    except AgentError as error:
        return Health(problems=(error.failure.message,))
    except TimeoutError:
        return Health(problems=(f"no session with it opens within {_PATIENCE:g} s",))
    finally:
        await session.kill()
        await host.close()
    if target.kind is AgentKind.COMMAND:
        return Health(lines=("starts",))
    return Health(lines=(f"reached: its card tells of {part.name}",))


async def _sign_of_url(target: Target) -> Health:
    """Whether something answers at the URL. Any status will do: what the agent makes of a prompt is for runs to see."""
    import aiohttp

    from workbench.agents.worker.adapters.http.words import in_words
    from workbench.engine.environment import environment_of

    environment = environment_of(target)
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
