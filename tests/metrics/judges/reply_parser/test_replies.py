"""Replies of judges in all formats. A reply without a verdict never counts as a no."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.metrics.judges.reply_parser import read_rubrics, read_verdict

RUBRICS = {"polite": "The answer is polite.", "r2": "The answer names a price."}


@pytest.mark.parametrize(
    ("reply", "score"),
    [
        ('{"reasoning": "same", "verdict": "valid"}', 1.0),
        ('{"reasoning": "other", "verdict": "invalid"}', 0.0),
        ('{"verdict": "VALID"}', 1.0),
        ('{"verdict": "Partially valid"}', 0.0),
        ('{"verdict": "partially_valid"}', 0.0),
        ('{"verdict": true}', 1.0),
        ('{"Verdict": "**valid**"}', 1.0),
        ('```json\n{"verdict": "valid"}\n```', 1.0),
        ('Here it is: {"verdict": "invalid"} as you wanted.', 0.0),
        ('{"a": 1} {"verdict": "valid"}', 1.0),
        ('{"is_the_agent_response_valid": "valid"}', 1.0),
        ('{"is_the_agent_response_valid": "almost"}', 0.0),
        ("{'reasoning': 'x', 'verdict': 'valid'}", 1.0),
        ("Verdict: invalid", 0.0),
        ("**Verdict:** Valid", 1.0),
        ("verdict = `invalid`.", 0.0),
        ('{"reasoning": "cut off in the mid', None),
        ('{"reasoning": "At first sight the verdict is valid, but the price', None),
        ('{"reasoning": "Verdict: valid would be', None),
        ('{"reasoning": "cut off behind it", "verdict": "invalid"', 0.0),
        ('{"verdict": "val', None),
        ('{"verdict": null}', None),
        ('{"verdict": 1}', None),
        ("valid", 1.0),
        ("Invalid.", 0.0),
        ("The answer seems quite valid to me in some ways, invalid in others.", None),
        ("Verdict: valid. On second thought, verdict: invalid", None),
        ("My eyes see nothing.", None),
        ("unknown", None),
        ("Die Antwort ist gültig.", None),
        ('{"verdict": "invalid - the price is wrong"}', 0.0),
        ('{"verdict": "Verdict: invalid"}', 0.0),
        ('{"verdict": ["invalid"]}', 0.0),
        ('{"verdict": "有效"}', 1.0),
        ('{"verdict": "无效：价格不对"}', 0.0),
        ('{"is_the_agent_response_invalid": "true"}', 0.0),
        ('{"is_the_agent_response_invalid": "invalid"}', 0.0),
        ('{"is_the_agent_response_invalid": false}', 1.0),
        ('{"verdict": "valid", "verdict": "invalid"}', None),
        ('{"verdict": "valid"} Wait, it says 13. {"verdict": "invalid"}', None),
        ('Verdict: invalid\n{"verdict": "valid"}', None),
        ('{"verdict": "valid", "is_valid": false}', None),
        ('{"quality": "valid"}', None),
        ("I give the verdict below.\n\nVerdict (valid/invalid):\n**Invalid**", 0.0),
        ("The prices differ.\n\nInvalid", 0.0),
        ("The prices differ. The verdict is invalid, as both matter.", 0.0),
        ("结论：无效", 0.0),
        ("\\boxed{invalid}", 0.0),
        ("", None),
        ("{" * 5_000, None),
        ('{"a":' * 30_000, None),
        ("yes" + "," * 50_000 + "no", None),
    ],
)
def test_a_verdict_is_read_if_the_reply_has_exactly_one(reply: str, score: float | None) -> None:
    opinion = read_verdict(reply)

    assert opinion.score == score
    assert (opinion.problem is None) == (score is not None)


def test_the_reasoning_is_stored() -> None:
    assert read_verdict('{"reasoning": "both say 12", "verdict": "valid"}').rationale == "both say 12"


def format_entries(*verdicts: tuple[str, str]) -> str:
    return json.dumps(
        {"properties": [{"id": name, "rationale": "r", "verdict": verdict} for name, verdict in verdicts]}
    )


@pytest.mark.parametrize(
    ("reply", "scores"),
    [
        (format_entries(("polite", "yes"), ("r2", "no")), {"polite": 1.0, "r2": 0.0}),
        (format_entries(("polite", "Yes."), ("r2", "Not applicable")), {"polite": 1.0, "r2": 1.0}),
        (format_entries(("polite", "no"), ("other", "yes")), {"polite": 0.0}),
        (format_entries(("[polite]", "NO")), {"polite": 0.0}),
        (format_entries(("The answer is polite", "yes")), {"polite": 1.0}),
        (format_entries(("polite", "No. My eyes ..."), ("r2", "yes")), {"polite": 0.0, "r2": 1.0}),
        (format_entries(("polite", "no - far too long"), ("r2", "yes (not applicable)")), {"polite": 0.0, "r2": 1.0}),
        (format_entries(("polite", "✅ yes"), ("r2", "No。")), {"polite": 1.0, "r2": 0.0}),
        (format_entries(("polite", "否"), ("r2", "是的，有礼貌")), {"polite": 0.0, "r2": 1.0}),
        (format_entries(("polite", "no"), ("r2", "yes"), ("polite", "yes")), {"polite": None, "r2": 1.0}),
        (format_entries(("polite", "yes"), ("r2", "yes"), ("polite", "yes")), {"polite": 1.0, "r2": 1.0}),
        ('{"polite": {"verdict": "yes"}, "polite": {"verdict": "no"}, "r2": {"verdict": "no"}}', {"r2": 0.0}),
        (
            '{"id": "polite", "verdict": "yes", "Verdict": "no"} {"id": "r2", "verdict": "no"}',
            {"polite": None, "r2": 0.0},
        ),
        ("ID: polite\nVerdict: no, it is not short.\nID: r2\nVerdict: yes", {"polite": 0.0, "r2": 1.0}),
        ("ID: polite\nFinal verdict: no", {"polite": 0.0}),
        ("ID: polite\nVerdict (yes/no): **No**, it is rude", {"polite": 0.0}),
        ("ID: polite\nVerdict:\nNo, it is rude", {"polite": 0.0}),
        ("ID: polite\nRationale: it is rude. Verdict: no", {"polite": 0.0}),
        ("ID: polite\nVerdict: yes\nVerdict: no\nID: r2\nVerdict: no", {"polite": None, "r2": 0.0}),
        ("ID: polite\nRationale: rude\nID: r2\nVerdict: no", {"r2": 0.0}),
        (
            'ID: polite\nVerdict: yes\n[{"id": "polite", "verdict": "no"}, {"id": "r2", "verdict": "no"}]',
            {"polite": None, "r2": 0.0},
        ),
        (format_entries(("polite", "unknown"), ("r2", "yes")), {"polite": None, "r2": 1.0}),
        ('{"polite": {"verdict": "yes"}, "r2": {"verdict": "no", "rationale": "x"}}', {"polite": 1.0, "r2": 0.0}),
        ('[{"id": "polite", "verdict": true}]', {"polite": 1.0}),
        ("ID: polite\nProperty: The answer is polite.\nRationale: it is\nVerdict: yes", {"polite": 1.0}),
        ("**Property:** The answer names a price.\n**Rationale:** none\n**Verdict:** **no**", {"r2": 0.0}),
        ("property:The answer is polite\nverdict:yes\n\nid: r2\nverdict: no", {"polite": 1.0, "r2": 0.0}),
        ('{"properties": [{"id": "polite", "verdict": "yes"}, {"id": "r2", "ver', {"polite": 1.0}),
    ],
)
def test_a_verdict_on_each_rubric_is_read_if_the_reply_has_one(reply: str, scores: dict[str, float | None]) -> None:
    assert {name: score for name, (score, _) in read_rubrics(reply, RUBRICS).rubrics.items()} == scores


@pytest.mark.parametrize("reply", ["", "All good!", "{}", '{"properties": []}', format_entries(("other", "yes"))])
def test_a_reply_without_a_known_rubric_has_a_problem(reply: str) -> None:
    opinion = read_rubrics(reply, RUBRICS)

    assert not opinion.rubrics
    assert opinion.problem is not None


@given(st.text())
def test_any_reply_is_read_without_an_exception(reply: str) -> None:
    for text in (reply, f"{{{reply}", f'{{"verdict": "{reply}"}}'):
        assert read_verdict(text).score in (None, 0.0, 1.0)
        read_rubrics(text, RUBRICS)
