"""How a model is reached: its provider, the keys that are set, and missing settings. Nothing is connected."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from urllib.parse import urlsplit

from workbench.llm.litellm_provider import MISSING, address_names, explain_missing_key, find_missing_keys, key_names
from workbench.llm.model_types import VERTEX_EVALUATION, is_google_model, uses_vertex
from workbench.llm.vertex_service import explain_missing_project

_KEYS_OF_GEMINI = ("GOOGLE_API_KEY", "GEMINI_API_KEY")
_KEYS_OF_VERTEX = (*_KEYS_OF_GEMINI, "GOOGLE_CLOUD_PROJECT", "GOOGLE_CLOUD_LOCATION", "GOOGLE_APPLICATION_CREDENTIALS")


@dataclass(frozen=True, kw_only=True)
class Access:
    """How a model is reached.

    `through` is the provider. `keys` are the names of the variables that are set, never their values. `address` is the
    server if it is not the provider's own, without user and password. `missing` says what prevents a request, as far
    as that is known without one.
    """

    through: str
    keys: tuple[str, ...]
    address: str | None
    missing: str | None


def find_access(model: str, environment: Mapping[str, str]) -> Access:
    """Find out how a model is reached with these environment variables."""
    if model.startswith(VERTEX_EVALUATION):
        names = tuple(name for name in _KEYS_OF_VERTEX if environment.get(name))
        address = _format_address(environment.get("GOOGLE_VERTEX_BASE_URL"))
        missing = explain_missing_project(environment)
        return Access(through="evaluation service of Vertex AI", keys=names, address=address, missing=missing)
    if not is_google_model(model):
        return _find_litellm_access(model, environment)
    on_vertex = uses_vertex(environment)
    names = _KEYS_OF_VERTEX if on_vertex else _KEYS_OF_GEMINI
    keys = tuple(name for name in names if environment.get(name))
    missing = None if keys or on_vertex else explain_missing_key(_KEYS_OF_GEMINI)
    return Access(
        through=f"google-genai, {'Vertex AI' if on_vertex else 'Gemini API'}",
        keys=keys,
        address=_format_address(environment.get("GOOGLE_VERTEX_BASE_URL" if on_vertex else "GOOGLE_GEMINI_BASE_URL")),
        missing=missing,
    )


def _find_litellm_access(model: str, environment: Mapping[str, str]) -> Access:
    keys = tuple(name for name in key_names(model) if environment.get(name))
    address = next((environment[name] for name in address_names(model) if environment.get(name)), None)
    missing = None if find_spec("litellm") is not None else f"it {MISSING}"
    if missing is None and (names := find_missing_keys(model, environment)):
        missing = explain_missing_key(names)
    return Access(
        through=f"LiteLLM, {model.partition('/')[0]}",
        keys=keys,
        address=_format_address(address),
        missing=missing,
    )


def _format_address(url: str | None) -> str | None:
    if not url:
        return None
    try:
        parts = urlsplit(url)
        port = "" if parts.port is None else f":{parts.port}"
    except ValueError:
        return "an invalid URL"
    return f"{parts.scheme}://{parts.hostname or ''}{port}{parts.path}"
