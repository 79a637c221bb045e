"""What names of models, headers and variables of the environment mean."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from workbench.llm.model_types import (
    find_secrets,
    is_google_model,
    parse_retry_after,
)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("40", 40.0), ("-1", 0.0), ("soon", None), (None, None), ("Mon, 23 Nov 2020 17:00:00 GMT", 0.0)],
)
def test_a_retry_after_header_is_parsed_into_seconds(text: str | None, seconds: float | None) -> None:
    assert parse_retry_after(text) == seconds


def test_a_future_retry_after_date_is_parsed_into_seconds_from_now() -> None:
    soon = parse_retry_after(format_datetime(datetime.now(UTC) + timedelta(seconds=100), usegmt=True))

    assert soon is not None
    assert 90 <= soon <= 100


@pytest.mark.parametrize(
    ("model", "google"),
    [
        ("gemini-2.5-flash", True),
        ("models/gemini-2.5-flash", True),
        ("projects/p/locations/l/endpoints/1", True),
        ("gemini/gemini-2.5-flash", False),
        ("openai/gpt-5", False),
        ("ollama/llama", False),
    ],
)
def test_the_name_of_a_model_decides_its_provider(model: str, google: bool) -> None:
    assert is_google_model(model) is google


def test_words_and_short_numbers_are_not_secrets() -> None:
    environment = {"OPENAI_API_KEY": "key-123", "DB_PASSWORD": "postgres", "PAGE_TOKEN": "123456", "HOME": "/home/a-1"}

    assert find_secrets(environment) == {"key-123"}
