"""The process that renders templates of users is limited in time and memory."""

from __future__ import annotations

import pytest

from workbench.llm.prompt_templates import TemplateProblem, find_names, render_text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}", "takes longer than"),
        ("{{ 'a' * 10 ** 10 }}", "memory"),
        ("{{ 'a' * 10 ** 7 }}", "gives 10,000,000 characters, expected at most 1,000,000"),
        ("{{ '%9999999999d' | format(1) }}", "memory"),
    ],
)
def test_a_template_is_limited_in_time_memory_and_length(text: str, expected: str) -> None:
    with pytest.raises(TemplateProblem, match=expected):
        render_text(text, {})


def test_parsing_a_template_is_limited_too() -> None:
    with pytest.raises(TemplateProblem, match="takes longer than"):
        find_names("{{ 10 ** (10 ** 8) }}")
    with pytest.raises(TemplateProblem, match="too deeply nested"):
        find_names("{{" + "(" * 5000 + ")" * 5000 + "}}")
    with pytest.raises(TemplateProblem, match="integer"):
        find_names("{{ " + "1" * 5000 + " }}")
    with pytest.raises(TemplateProblem, match="has 700,000 characters, expected at most 100,000"):
        find_names("{{ a }}" * 100_000)
