"""Templates of users: whatever they do, the message is one sentence and nothing else ends."""

from __future__ import annotations

import pytest

from workbench.llm.templates import TemplateProblem, render_text


@pytest.mark.parametrize(
    "text",
    [
        "{% macro a() %}{{ a() }}{% endmacro %}{{ a() }}",
        "{{ cycler() }}",
        "{{ ''.__class__.__mro__ }}",
        "{{ missing }}",
        "{{ 1 / 0 }}",
        "{% if %}",
    ],
)
def test_a_template_that_fails_is_a_problem_of_the_template(text: str) -> None:
    with pytest.raises(TemplateProblem):
        render_text(text, {})
