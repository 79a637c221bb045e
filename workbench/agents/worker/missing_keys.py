"""Missing keys of models, recognised in what the libraries of model providers raise."""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Optional

# By library, the variables that hold its key. The text of an exception that names others counts before these.
_VARIABLES = {
    "google.genai": "GOOGLE_API_KEY or GEMINI_API_KEY",
    "google.auth": "GOOGLE_APPLICATION_CREDENTIALS",
    "openai": "OPENAI_API_KEY",
    "anthropic": "ANTHROPIC_API_KEY",
    "groq": "GROQ_API_KEY",
    "mistralai": "MISTRAL_API_KEY",
    "cohere": "CO_API_KEY",
    "botocore": "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
    "litellm": "",
    "langchain_google_genai": "GOOGLE_API_KEY or GEMINI_API_KEY",
    "langchain_openai": "OPENAI_API_KEY",
    "langchain_anthropic": "ANTHROPIC_API_KEY",
}
_NO_KEY = re.compile(
    r"""
    no\ api\ key\ was\ provided                   # google.genai
    | api\ key\ (or\ .{1,40}\ )?must\ be\ set     # google.genai on Vertex AI
    | default\ credentials\ were\ not\ found      # google.auth
    | missing\ credentials                        # openai
    | api_key\ client\ option\ must\ be\ set      # openai, groq
    | could\ not\ resolve\ authentication\ method # anthropic
    | unable\ to\ locate\ credentials             # botocore
    | missing\ [\w ]*api\ key                     # litellm
    | api\ ?key\ (is\ )?required                  # litellm, langchain_google_genai
    | \w_API_KEY\ is\ not\ set                    # litellm
    """,
    re.IGNORECASE | re.VERBOSE,
)
_VARIABLE = re.compile(r"\b[A-Z][A-Z0-9_]*_API_KEY\b")
_LONGEST_TEXT = 1_000  # characters; LiteLLM adds tracebacks


def describe_missing_key(error: BaseException) -> Optional[str]:
    """Return what to do if this exception says that a model has no key; None if it says anything else.

    Only what a library of a provider raised counts. The same words in an exception of the agent's own code do not.
    """
    library = _library_of(error)
    if library is None:
        return None
    try:
        text = str(error)[:_LONGEST_TEXT]
    except Exception:
        return None
    if _NO_KEY.search(text) is None:
        return None
    names = " or ".join(dict.fromkeys(_VARIABLE.findall(text))) or _VARIABLES[library] or "the variable of the provider"
    return f"{library} finds no key: set {names} in the environment or in the agent's .env"


def _library_of(error: BaseException) -> Optional[str]:
    """The library whose code raised the exception."""
    entry = error.__traceback__
    if entry is None:
        return None
    while entry.tb_next is not None:
        entry = entry.tb_next
    module = entry.tb_frame.f_globals.get("__name__")
    parts = module.split(".") if isinstance(module, str) else []
    return next((name for name in (".".join(parts[:2]), *parts[:1]) if name in _VARIABLES), None)
