"""The frame of every generated agent: the agent function, a router, a registry and a small framework."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

FRAMEWORK = '''"""What a framework does with the modules it is given: it looks at what is in them."""

import inspect
import os
import re


def functions(module):
    return {
        name: value
        for name, value in vars(module).items()
        if inspect.isfunction(value) and not name.startswith("_")
    }


def declarations(module):
    return [f"{name}{inspect.signature(value)}: {value.__doc__}" for name, value in functions(module).items()]


def plain(text):
    """A text that is the same in every process and wherever the package lies."""
    return re.sub(" at 0x[0-9a-f]+", "", text).replace(os.getcwd(), "ROOT")
'''

REGISTRY = '''"""Tools that told of themselves."""

TOOLS = {}


def register(function):
    TOOLS[function.__name__] = function
    return function
'''

_ROUTER = '''"""Which tool is meant, and where it is."""

import importlib

from pack import framework, registry

PLACES = {places}

ALIASES = {aliases}

DEEPEST = 4
_active = []


def names():
    return sorted(PLACES)


def call(name, *args):
    """The tool's own value, or an awaitable of it."""
    if len(_active) > DEEPEST:
        return "too deep"
    _active.append(name)
    try:
        return find(name)(*args)
    finally:
        _active.pop()


def find(name):
    if name in registry.TOOLS:
        return registry.TOOLS[name]
    module = importlib.import_module(PLACES[name])
    {lookup}


def declare(name):
    return framework.declarations(importlib.import_module(name))
'''

_MAIN = '''"""The agent: does what the prompt names, step by step, and says what came of it."""

import asyncio
import inspect
import zlib

{imports}

{instruction}

{define} answer(prompt, session):
    lines = []
    calls = []
    careful = prompt.startswith("carefully: ")
    for step in prompt.removeprefix("carefully: ").split("; "):
        try:
            lines.append(f"{{step}} = {{{wait}perform(step, calls, session)}}")
        except Exception as error:
            if not careful:
                raise
            lines.append(f"{{step}} ! {{type(error).__name__}}: {{framework.plain(str(error))}}")
    {ending}
    return {{"response": " | ".join(lines), "predicted_trajectory": calls}}


{define} perform(step, calls, session):
    words = step.split()
    if words[0] == "declare":
        return framework.plain(str(router.declare(words[1])))
    if words[0] == "recall":
        return session.state.get(words[1])
    if words[0] == "remember":
        session.state[words[1]] = len(session.history) + {number}
        return sorted(session.state)
    value = None
    for index, part in enumerate(step.split(" > ")):
        alias, *given = part.split()
        args = [int(word) for word in given] if index == 0 else [measure(value)]
        tool = router.ALIASES.get(alias, alias)
        calls.append({{"tool_name": tool, "tool_input": {{"n": args[0]}} if args else {{}}}})
        value = {wait}settled(router.call(tool, *args))
    return framework.plain(repr(value))


{define} settled(value):
    {settle}


def measure(value):
    """A number that tells values apart, so that what one tool gives shows in how the next is called."""
    return zlib.crc32(framework.plain(repr(value)).encode()) % 40
'''


def make_main(rng: random.Random, *, eager: Sequence[str], prompt: str | None) -> str:
    """Make the module of the agent. It imports the `eager` modules at its top. `prompt`: when it reads its prompt."""
    imports = ["from pack import framework, router", *(f"import {place}" for place in eager)]
    instruction = "NAME = 'agent'"
    endings = []
    if prompt == "early":
        imports.insert(0, "from pathlib import Path")
        instruction = 'INSTRUCTION = Path("prompts/instruction.txt").read_text()'
        endings.append('lines.append(INSTRUCTION.split("\\n")[0])')
    elif prompt == "late":
        endings.append(
            'with open("prompts/instruction.txt") as stream:\n        lines.append(stream.readline().strip())'
        )
    if eager and rng.random() < 0.5:
        endings.append(f"lines.append(str(measure(framework.declarations({rng.choice(list(eager))}))))")
    is_async = rng.random() < 0.4
    return _MAIN.format(
        imports="\n".join(imports),
        instruction=instruction,
        define="async def" if is_async else "def",
        wait="await " if is_async else "",
        settle="return (await value) if inspect.isawaitable(value) else value"
        if is_async
        else "return asyncio.run(value) if inspect.isawaitable(value) else value",
        ending="\n    ".join(endings) or "calls.sort(key=lambda call: 0)",
        number=rng.randint(1, 9),
    )


def make_router(rng: random.Random, places: Mapping[str, str], aliases: Mapping[str, str]) -> str:
    """Make the module that finds tools, by name or by inspection of their modules."""
    lookup = rng.choice(("return getattr(module, name)", "return framework.functions(module)[name]"))
    return _ROUTER.format(places=_format_dict(places), aliases=_format_dict(aliases), lookup=lookup)


def _format_dict(items: Mapping[str, str]) -> str:
    return "{\n" + "".join(f'    "{key}": "{value}",\n' for key, value in items.items()) + "}"
