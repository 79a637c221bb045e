"""Names of models that plainly belong to a vendor."""

from __future__ import annotations

import re

# What the names of a vendor's models begin with, and what LiteLLM calls the vendor.
_VENDORS = (
    (r"(ft:)?gpt-|chatgpt-|o[1-9](-|$)|davinci|text-embedding-", "openai"),
    (r"claude-", "anthropic"),
    (r"mistral-|mixtral-|ministral-|magistral-|codestral-|open-mi[sx]tral-", "mistral"),
    (r"grok-", "xai"),
    (r"deepseek-", "deepseek"),
    (r"command-", "cohere"),
    (r"(meta-)?llama-?[1-9]", "groq"),
    (r"qwen", "dashscope"),
)


def name_with_provider(model: str) -> str | None:
    """Return `provider/model` for a bare name that plainly is another vendor's than Google's; else None.

    A bare name is asked of Google, which would only answer that it does not exist. So is one below `models/`,
    where a name without a version may be that of a tuned model.
    """
    name = model.removeprefix("models/")
    if name != model and not any(character.isdigit() for character in name):
        return None
    for pattern, provider in _VENDORS:
        if re.match(pattern, name, re.IGNORECASE) and "/" not in name:
            return f"{provider}/{name}"
    return None


def wrong_vendor(model: str) -> str | None:
    """Return what is expected in place of such a name; None for every other name."""
    named = name_with_provider(model)
    return None if named is None else f"{named!r}: a model of another vendor than Google is named provider/model"
