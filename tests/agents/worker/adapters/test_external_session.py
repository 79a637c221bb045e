"""Values of the environment in the settings of an agent elsewhere: filled in, and never shown."""

from __future__ import annotations

import pytest

from workbench.agents.worker.adapters.base import LoadError
from workbench.agents.worker.adapters.external_session import Variables


def make_variables(**headers: str) -> Variables:
    return Variables({"name": "web", "kind": "http", "options": {"headers": headers}})


def test_values_of_variables_are_hidden_in_texts_and_secrets_in_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SERVICE_TOKEN", "a-very-long-value")
    monkeypatch.setenv("REGION", "europe-west4")
    variables = make_variables(Authorization="Bearer ${SERVICE_TOKEN}", Region="${REGION}")

    assert variables.headers() == {"Authorization": "Bearer a-very-long-value", "Region": "europe-west4"}

    text = "a-very-long-value is refused in europe-west4"
    assert variables.conceal(text) == "${SERVICE_TOKEN} is refused in ${REGION}"
    assert variables.conceal_secrets([{"answer": text}]) == [{"answer": "${SERVICE_TOKEN} is refused in europe-west4"}]


def test_a_variable_that_is_not_set_or_breaks_the_line_is_an_error_with_its_key(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TWO_LINES", "a\nb")

    with pytest.raises(LoadError, match=r"targets\.web\.http\.headers\.X: the environment variable ABSENT is not set"):
        make_variables(X="${ABSENT}").headers()
    with pytest.raises(LoadError, match=r"targets\.web\.http\.headers\.X: a variable in it holds a line break"):
        make_variables(X="${TWO_LINES}").headers()
