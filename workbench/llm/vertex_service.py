"""The evaluation service of Vertex AI (the extra `vertex`), asked like a model whose answers are JSON.

A request holds one message: `{"metric": NAME, "instance": {...}}`, where the instance is what the service's own
`EvaluationInstance` has (`prompt`, `response`, `reference` as texts, or `agent_data`). The answer is
`{"score": ..., "explanation": ..., "rubrics": [{"text": ..., "met": ..., "reasoning": ...}]}`. So limits, retries, the
cache and records of calls are those of models.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from workbench.llm.gemini import make_library_error, make_service_error
from workbench.llm.model_types import ModelError, ModelReply, ModelRequest, Trouble, make_model_error

if TYPE_CHECKING:
    from google.genai.client import Client


COHERENCE = "coherence"
"""A metric that needs the prompt template of the library; the service knows the others by name."""

_MISSING = (
    "the evaluation service of Vertex AI needs google-cloud-aiplatform: pip install 'agent-eval-workbench[vertex]'"
)
_NO_PROJECT = (
    "the evaluation service of Vertex AI needs a project: set GOOGLE_CLOUD_PROJECT and GOOGLE_CLOUD_LOCATION in the "
    "environment or in the agent's .env, or GOOGLE_GENAI_USE_VERTEXAI=1 with GOOGLE_API_KEY"
)
_YES = frozenset({"1", "true"})
_TROUBLE_OF_CODE = {  # of google.rpc.Code
    4: Trouble.UNAVAILABLE,
    5: Trouble.UNKNOWN_MODEL,
    7: Trouble.DENIED,
    8: Trouble.LIMITED,
    13: Trouble.UNAVAILABLE,
    14: Trouble.UNAVAILABLE,
    16: Trouble.DENIED,
}


class VertexEvaluation:
    """Asks the service, in the project that the environment variables name."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment
        self._client: Any = None
        self._template = ""
        self._connecting = asyncio.Lock()

    async def prepare(self, model: str) -> None:
        """See Provider."""
        del model  # one key serves all models
        async with self._connecting:
            if self._client is None:
                self._client, self._template = await asyncio.to_thread(_connect, self._environment)

    async def ask(self, request: ModelRequest) -> ModelReply:
        """See Provider."""
        from google.genai import errors
        from pydantic import ValidationError

        asked = json.loads(request.messages[0].text)
        try:
            said = await self._client.aio.evals.evaluate_instances(metric_config=self._make_question(asked))
        except ValidationError as error:  # an agent may describe itself in another format
            place = error.errors()[0]
            where = ".".join(map(str, place["loc"]))
            raise make_model_error(
                Trouble.REFUSED, request.model, f"the conversation: {where}: {place['msg']}"
            ) from error
        except errors.APIError as error:
            raise make_service_error(error, request.model) from error
        except Exception as error:  # from the transport or from google.auth; classified there
            raise make_library_error(error, request.model) from error
        return ModelReply(text=json.dumps(_read_answer(said, request.model), ensure_ascii=False))

    async def close(self) -> None:
        """See Provider."""
        client, self._client = self._client, None
        if client is not None:
            await client.aio.aclose()

    def _make_question(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        instance = asked["instance"]
        if asked["metric"] == COHERENCE:
            texts = json.dumps({name: instance[name] for name in ("prompt", "response")}, ensure_ascii=False)
            spec = {"metric_prompt_template": self._template}
            return {"pointwise_metric_input": {"metric_spec": spec, "instance": {"json_instance": texts}}}
        values = {name: {"text": value} if isinstance(value, str) else value for name, value in instance.items()}
        return {"metrics": [{"name": asked["metric"]}], "instance": values}


def explain_missing_project(environment: Mapping[str, str]) -> str | None:
    """Return which setting of the service is missing; None if it can be asked."""
    project, location = environment.get("GOOGLE_CLOUD_PROJECT"), environment.get("GOOGLE_CLOUD_LOCATION")
    return None if (project and location) or _has_key(environment) else _NO_PROJECT


def _has_key(environment: Mapping[str, str]) -> bool:
    uses_vertex = environment.get("GOOGLE_GENAI_USE_VERTEXAI", "").lower() in _YES
    return uses_vertex and bool(environment.get("GOOGLE_API_KEY"))


def _connect(environment: Mapping[str, str]) -> tuple[Client, str]:
    """Return the client, and the template of the metric that the service does not know by name."""
    project, location = environment.get("GOOGLE_CLOUD_PROJECT"), environment.get("GOOGLE_CLOUD_LOCATION")
    key = environment.get("GOOGLE_API_KEY")
    if (missing := explain_missing_project(environment)) is not None:
        raise ModelError(Trouble.NO_KEY, missing)
    # It imports LiteLLM if that is installed, which would otherwise fetch a list of prices.
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    try:
        import agentplatform
        from vertexai.evaluation import MetricPromptTemplateExamples
    except ImportError as error:
        raise ModelError(Trouble.NO_LIBRARY, _MISSING) from error
    from google.genai import types

    # One try: retries are the same for all providers.
    options = types.HttpOptions(retry_options=types.HttpRetryOptions(attempts=1))
    options.base_url = environment.get("GOOGLE_VERTEX_BASE_URL")
    template = str(MetricPromptTemplateExamples.get_prompt_template(COHERENCE))
    try:
        if project and location:
            return agentplatform.Client(project=project, location=location, http_options=options), template
        return agentplatform.Client(api_key=key, http_options=options), template
    except Exception as error:  # from google.auth, or ValueError for a missing value; all have readable messages
        raise ModelError(Trouble.NO_KEY, f"the evaluation service of Vertex AI cannot be used: {error}") from error


def _read_answer(said: Any, model: str) -> dict[str, Any]:
    """Convert the answer of the service. Raises ModelError if it has no score."""
    graded = said.pointwise_metric_result
    result = graded if graded is not None else said.metric_results[0] if said.metric_results else None
    error = getattr(result, "error", None)
    if error is not None and error.code:
        raise make_model_error(_TROUBLE_OF_CODE.get(error.code, Trouble.REFUSED), model, error.message or "")
    if result is None or result.score is None:
        raise make_model_error(Trouble.EMPTY, model, "no score")
    return {"score": result.score, "explanation": result.explanation or "", "rubrics": list(_rubrics(result))}


def _rubrics(result: Any) -> Iterator[dict[str, Any]]:
    for verdict in getattr(result, "rubric_verdicts", None) or ():
        rubric = verdict.evaluated_rubric
        content = rubric.content if rubric is not None else None
        described = content.property if content is not None else None
        text = (described.description if described is not None else None) or (rubric.rubric_id if rubric else None)
        # The service omits the verdict if a rubric is not met.
        yield {"text": text or "", "met": bool(verdict.verdict), "reasoning": verdict.reasoning or ""}
