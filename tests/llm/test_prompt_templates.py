"""Templates of users: every failure becomes a one-sentence problem and affects nothing else."""

from __future__ import annotations

import subprocess

import pytest

from workbench.llm.prompt_templates import TemplateProblem, find_names, render_text


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
def test_a_failing_template_raises_a_template_problem(text: str) -> None:
    with pytest.raises(TemplateProblem):
        render_text(text, {})


def test_a_failing_template_is_rendered_once_for_all_cases(monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(2):
        with pytest.raises(TemplateProblem, match="takes longer than"):
            render_text("{% for a in range(99998) %}{% for b in range(99998) %}{% endfor %}{% endfor %}", {})
        monkeypatch.setattr(subprocess, "run", None)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Say {{ end }}!\n", "Say </end>!"),
        ("{% for b in persona.behaviors %}\n{{ loop.index }}: {{ b.name | upper }}\n{% endfor %}", "1: KIND\n"),
        ("{{ persona.behaviors[0].shown() }} ü \ud800", "* be kind ü \ud800"),
        ("{% if persona %}yes{% endif %}", "yes"),
        ("plain", "plain"),
    ],
)
def test_templates_are_filled_in(text: str, expected: str) -> None:
    behavior = {"name": "kind", "shown": lambda: "* be kind"}

    assert render_text(text, {"end": "</end>", "persona": {"behaviors": [behavior]}}) == expected


def test_find_names_returns_the_variables_of_a_template() -> None:
    assert find_names("{{ a }} {% for b in c %}{{ b }}{{ d }}{% endfor %}") == {"a", "c", "d"}
    assert find_names("{{ a }} and {{ b }}") == {"a", "b"}
