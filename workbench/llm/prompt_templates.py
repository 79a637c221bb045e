"""Prompt templates, rendered in a sandbox, and prices of models."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections.abc import Mapping
from decimal import Decimal
from functools import cache, cached_property, lru_cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from workbench.llm import template_process
from workbench.llm.model_types import is_google_model
from workbench.model.results import TokenUsage

if TYPE_CHECKING:
    from jinja2 import Template
    from jinja2.sandbox import SandboxedEnvironment


# Prompts as jinja2 templates, rendered in a sandbox. Values are data and never rendered themselves.

_SECONDS_TO_WAIT = 60  # for a process that may start slowly; its own limits are far lower
_LENGTH_AT_MOST = 100_000  # of a template, in characters: parsing cannot be interrupted
_TOO_SLOW = f"takes longer than {template_process.SECONDS_AT_MOST} s; loops within loops must be short"


class TemplateProblem(ValueError):
    """A template of the user cannot be parsed or rendered; the message says where and why."""


class PromptFiles:
    """The templates in one package: files named `<prompt>.jinja`."""

    def __init__(self, package: str) -> None:
        self._package = package
        self._templates: dict[str, Template] = {}

    def render(self, name: str, **data: Any) -> str:
        """Render the prompt `name`. A missing value raises jinja2.UndefinedError."""
        template = self._templates.get(name)
        if template is None:
            text = resources.files(self._package).joinpath(f"{name}.jinja").read_text(encoding="utf-8")
            template = self._templates[name] = _environment().from_string(text)
        return template.render(**data)

    @cached_property
    def version(self) -> str:
        """A hash of all templates, since replies depend on them."""
        digest = hashlib.sha256()
        for file in sorted(resources.files(self._package).iterdir(), key=lambda file: file.name):
            if file.name.endswith(".jinja"):
                digest.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
        return digest.hexdigest()


def find_names(text: str) -> frozenset[str]:
    """Return the names that a template of the user needs. Raises TemplateProblem if it cannot be parsed."""
    simple = _find_simple_names(text)
    return frozenset(_query_process(text, None)["names"]) if simple is None else simple


def render_text(text: str, data: Mapping[str, Any]) -> str:
    """Render a template of the user. Values are JSON, or functions without parameters. Raises TemplateProblem.

    A template that does more than insert values is rendered in its own process, with limits of time and memory.
    """
    if _find_simple_names(text) is None:
        return str(_query_process(text, json.dumps(_serialize_functions(data)))["text"])
    try:
        return _environment().from_string(text).render(**data)
    except Exception as error:  # a template is code of the user and may raise anything, MemoryError included
        raise TemplateProblem(str(error) or type(error).__name__) from error


@lru_cache(maxsize=256)
def _find_simple_names(text: str) -> frozenset[str] | None:
    """Return the names in a template that only inserts values; None if it does more. Raises TemplateProblem."""
    from jinja2 import TemplateSyntaxError, nodes

    if len(text) > _LENGTH_AT_MOST:
        raise TemplateProblem(f"has {len(text):,} characters, expected at most {_LENGTH_AT_MOST:,}")
    try:
        tree = _environment().parse(text)
        all_nodes = list(tree.find_all(nodes.Node))
    except TemplateSyntaxError as error:
        raise TemplateProblem(f"line {error.lineno}: {error.message}") from error
    except RecursionError:
        raise TemplateProblem("too deeply nested") from None
    except ValueError as error:  # an integer literal that is too long for Python
        raise TemplateProblem(str(error)) from None
    if not all(isinstance(node, nodes.Output | nodes.TemplateData | nodes.Name) for node in all_nodes):
        return None
    return frozenset(node.name for node in all_nodes if isinstance(node, nodes.Name))


def _query_process(text: str, data: str | None) -> Mapping[str, Any]:
    """Return the answer of the process about a template; `data` is JSON. Raises TemplateProblem."""
    answer = _ask_process(text, data)
    if "problem" in answer:
        raise TemplateProblem(answer["problem"])
    return answer


@lru_cache(maxsize=256)  # each case of a plan has the same ones
def _ask_process(text: str, data: str | None) -> Mapping[str, Any]:
    """Ask the process. If the template is too slow, the answer has a `problem`. Raises TemplateProblem."""
    request = json.dumps({"text": text, "data": None if data is None else json.loads(data), "path": _search_path()})
    try:
        process = subprocess.run(
            [sys.executable, "-I", template_process.__file__],
            input=request.encode("utf-8", "surrogatepass"),
            capture_output=True,
            check=False,
            timeout=_SECONDS_TO_WAIT,
            start_new_session=True,  # Ctrl-C must reach only this process
        )
    except subprocess.TimeoutExpired:
        raise TemplateProblem(_TOO_SLOW) from None
    except OSError as error:
        raise TemplateProblem(f"the process that renders it could not be started: {error}") from error
    if process.returncode:
        if process.returncode < 0:
            return {"problem": _TOO_SLOW}
        last_line = process.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        raise TemplateProblem(f"the process that renders it ended with exit status {process.returncode}: {last_line}")
    answer: Mapping[str, Any] = json.loads(process.stdout)
    return answer


def _serialize_functions(value: Any) -> Any:
    if callable(value):
        return {template_process.CALLABLE: value()}
    if isinstance(value, Mapping):
        return {key: _serialize_functions(item) for key, item in value.items()}
    return [_serialize_functions(item) for item in value] if isinstance(value, list | tuple) else value


def _search_path() -> list[str]:
    current_folder = Path.cwd()
    return [entry for entry in sys.path if entry and Path(entry).is_absolute() and Path(entry) != current_folder]


@cache
def _environment() -> SandboxedEnvironment:
    return template_process.make_environment()


# Prices of models, from the settings or from genai-prices.

_MILLION = 1_000_000
_LOCAL_PROVIDERS = frozenset({"ollama", "ollama_chat", "lm_studio", "llamafile", "hosted_vllm", "docker_model_runner"})
"""Providers of LiteLLM that run models locally, at no cost."""


class OwnPrice(NamedTuple):
    """US dollars for a million tokens."""

    input: float
    output: float


class UnknownPrice(Exception):
    """The price of a model is unknown; the text says what to do."""


class Tokens(NamedTuple):
    """The billed tokens of one reply. `output` includes thinking, `input` includes `cached_input`."""

    input: int
    output: int
    cached_input: int = 0


def count_tokens(usage: TokenUsage | None) -> Tokens | None:
    """Count the tokens of a reply; None if the model did not report both input and output, or negative numbers."""
    if usage is None or usage.prompt is None:
        return None
    counts = (usage.prompt, usage.tool_use_prompt, usage.candidates, usage.thoughts, usage.cached, usage.total)
    if min(count or 0 for count in counts) < 0:  # of a broken gateway
        return None
    input_tokens = usage.prompt + (usage.tool_use_prompt or 0)
    if usage.candidates is None and usage.thoughts is None:
        return (
            None if usage.total is None else Tokens(input_tokens, max(usage.total - input_tokens, 0), usage.cached or 0)
        )
    return Tokens(input_tokens, (usage.candidates or 0) + (usage.thoughts or 0), usage.cached or 0)


class Prices:
    """Prices of models by name. Call `load` first, off the event loop: it imports a library."""

    def __init__(self, configured: Mapping[str, OwnPrice] | None = None) -> None:
        """Prices in the settings (`configured`) take precedence over those of the library."""
        self._configured = configured or {}

    def load(self) -> None:
        """Import the library and its prices, which it reads on first use."""
        self.explain_unknown("gemini-2.5-flash")

    def cost(self, model: str, tokens: Tokens) -> Decimal:
        """Return the cost of one reply in US dollars. Raises UnknownPrice."""
        price = self._configured.get(model)
        if price is not None:
            dollars = Decimal(repr(price.input)) * tokens.input + Decimal(repr(price.output)) * tokens.output
            return dollars / _MILLION
        name, provider = _split_model_name(model)
        if provider in _LOCAL_PROVIDERS:
            return Decimal(0)
        from genai_prices import Usage, calc_price

        usage = Usage(input_tokens=tokens.input, output_tokens=tokens.output, cache_read_tokens=tokens.cached_input)
        try:
            return calc_price(usage, name, provider_id=provider).total_price
        except (LookupError, ValueError) as error:
            raise UnknownPrice(
                f'the price of {model} is unknown: set input and output of [judge.prices."{model}"], '
                "in US dollars per million tokens"
            ) from error

    def explain_unknown(self, model: str) -> str | None:
        """Return why the price of a model is unknown; None if it is known."""
        try:
            self.cost(model, Tokens(1, 1))
        except UnknownPrice as error:
            return str(error)
        return None

    def is_free(self, model: str) -> bool:
        """Return whether a model costs nothing, however many tokens it uses."""
        try:
            return not self.cost(model, Tokens(1, 1))
        except UnknownPrice:
            return False


def _split_model_name(model: str) -> tuple[str, str]:
    """Return the name and the provider of a model in the library."""
    if is_google_model(model):
        return model.rpartition("/")[2], "google"
    provider, _, name = model.partition("/")
    return name, provider
