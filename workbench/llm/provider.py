"""Who answers for which model name."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Protocol

from workbench.llm.requests import ModelReply, ModelRequest
from workbench.model.text import is_short_word, names_secret

_OF_SECRETS = ("_TOKEN", "_SECRET", "_PASSWORD")
_SHORTEST_SECRET = 6  # characters: shorter ones are words that stand in any text
_OF_ADDRESSES = ("_BASE_URL", "_API_BASE", "_API_BASE_URL", "_ENDPOINT")


class Provider(Protocol):
    """One vendor's library. Used on one event loop, several requests at a time."""

    async def prepare(self, model: str) -> None:
        """Load the library, off the event loop, and find the key for a model: before any clock runs.

        Raises ModelError.
        """

    async def ask(self, request: ModelRequest) -> ModelReply:
        """One answer, after `prepare`, without trying again. Raises ModelError.

        Trouble.REFUSED where it may be that the model cannot answer by the schema of the request. `seconds` and
        `cached` are set by the caller.
        """

    async def close(self) -> None:
        """Give connections back."""


VERTEX_EVALUATION = "vertex-evaluation/"
"""What the names of metrics begin with that the evaluation service of Vertex AI is asked for, in place of a model."""


def vendor_of(model: str) -> str:
    """Equal for models that the same provider answers for."""
    if model.startswith(VERTEX_EVALUATION):
        return VERTEX_EVALUATION
    return "google" if is_of_google(model) else "litellm"


def is_of_google(model: str) -> bool:
    """Whether google-genai answers for a model; LiteLLM does for `provider/model`.

    A name with a slash is LiteLLM's unless it is a resource name of the Gemini API or of Vertex AI.
    """
    return "/" not in model or model.startswith(("models/", "tunedModels/", "projects/", "publishers/"))


def uses_vertex(environment: Mapping[str, str]) -> bool:
    """Whether models of Google are those of a project of Vertex AI, not those of the Gemini API."""
    return environment.get("GOOGLE_GENAI_USE_VERTEXAI", "").lower() in ("1", "true")


def address_of(environment: Mapping[str, str]) -> str:
    """The servers that variables name in place of the vendors' own, as a short text; empty where they name none."""
    named = sorted((name, value) for name, value in environment.items() if name.endswith(_OF_ADDRESSES) and value)
    return hashlib.sha256(repr(named).encode()).hexdigest()[:16] if named else ""


def is_secret_name(name: str) -> bool:
    """Whether a variable of this name holds a secret."""
    return names_secret(name) or name.upper().endswith(_OF_SECRETS)


def secrets_in(environment: Mapping[str, str]) -> frozenset[str]:
    """The values of variables whose names say that they are secrets."""
    return frozenset(
        value
        for name, value in environment.items()
        if len(value) >= _SHORTEST_SECRET and not is_short_word(value) and is_secret_name(name)
    )


def has_key(model: str, environment: Mapping[str, str]) -> bool:
    """Whether a model can be asked at all, as far as variables tell: LiteLLM knows best what its providers need."""
    if not is_of_google(model):
        return True
    if uses_vertex(environment):
        return True
    return any(environment.get(name) for name in ("GOOGLE_API_KEY", "GEMINI_API_KEY"))


def provider_for(model: str, environment: Mapping[str, str]) -> Provider:
    """Who answers for a model. Keys and addresses are taken from `environment`."""
    if model.startswith(VERTEX_EVALUATION):
        from workbench.llm.vertex_evaluation import VertexEvaluation

        return VertexEvaluation(environment)
    if is_of_google(model):
        from workbench.llm.gemini import Gemini

        return Gemini(environment)
    from workbench.llm.through_litellm import ThroughLiteLLM

    return ThroughLiteLLM(environment)
