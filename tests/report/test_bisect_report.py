"""The text of a search, with content that the user does not control."""

from __future__ import annotations

from dataclasses import replace

from workbench.model.evalset import Invocation
from workbench.model.identity import CaseKey
from workbench.model.results import CaseResult, CaseStatus, Execution, TurnResult
from workbench.report.bisect_report import (
    BisectReport,
    BisectStep,
    Commit,
    CommitOutcome,
    Suspect,
    Used,
    bisect_lines,
    bisect_record,
)

KEY = CaseKey(target="t", eval_set="s.evalset.json", eval_id="c\x1b[31m")


def make_commit(number: int, subject: str = "Change it") -> Commit:
    return Commit(f"{number:040x}", (), "Ann", "2026-02-11T10:00:00+00:00", subject)


GOOD, FIRST, BAD = make_commit(1), make_commit(2, "Evil \x1b[2J subject"), make_commit(3)
REPORT = BisectReport(
    case=KEY, good=GOOD, bad=BAD, commits=2, repeats=1, suspects=[Suspect(FIRST, 1.0)], confidence=None, steps=(),
    executions=1, notices=(),
)  # fmt: skip


def make_result(answer: str) -> CaseResult:
    invocation = {
        "user_content": {"role": "user", "parts": [{"text": "sky?"}]},
        "final_response": {"role": "model", "parts": [{"text": answer}]},
    }
    turn = TurnResult(invocation=Invocation.model_validate(invocation), duration_seconds=1.0)
    return CaseResult(case=KEY, eval_set_id="s", status=CaseStatus.PASSED, execution=Execution(turns=(turn,)))


def test_control_characters_are_visible_and_secrets_masked() -> None:
    report = replace(REPORT, diff="+key = 'sk-abcdefghijklmnopqrstuvwxyz123456'\n+\x1b[2J", unused=["a\x07b"])

    text = "\n".join(bisect_lines(report))

    assert not {"\x1b", "\x07"} & {*text}
    assert "sk-abcdefgh" not in text
    assert "sk-abcdefgh" not in bisect_record(report)["diff"]


def test_what_the_case_did_before_and_after_is_compared() -> None:
    report = replace(REPORT, before=make_result("grey"), after=make_result("blue"))

    lines = list(bisect_lines(report))

    assert lines[-2:] == ['    - response: "grey"', '    + response: "blue"']
    assert bisect_record(report)["differences"][0]["actual"] == "blue"
    same = replace(REPORT, before=make_result("grey"), after=make_result("grey"))
    assert list(bisect_lines(same))[-1] == "the case did the same before and after"


def test_several_suspects_have_their_probabilities_and_skipped_commits_their_reasons() -> None:
    skipped = BisectStep(commit=BAD, outcome=CommitOutcome.SKIPPED, reason="no agent")
    report = replace(
        REPORT, suspects=[Suspect(FIRST, 0.6), Suspect(BAD, 0.38)], confidence=0.98, repeats=5, steps=[skipped]
    )

    text = "\n".join(bisect_lines(report))

    assert "turned red in one of 2 commits:" in text
    assert f"60%  {FIRST.short}" in text
    assert "probability 98.0%, from up to 5 samples of a commit" in text
    assert f"{BAD.short} skipped: no agent" in text
    assert bisect_record(report)["first_bad"] is None


def test_a_long_diff_is_cut_in_text_only() -> None:
    report = replace(REPORT, diff="".join(f"+{number}\n" for number in range(500)))

    assert "… 300 more lines" in "\n".join(bisect_lines(report))
    assert bisect_record(report)["diff"].count("\n") == 500


def test_files_count_by_name_by_listed_folder_and_by_tree() -> None:
    used = Used(frozenset({"a.txt"}), frozenset({"docs/deep"})).add(Used(trees=frozenset({"data"})))

    assert used.has("a.txt", changes_names=False)
    assert used.has("data/x/y.txt", changes_names=False)
    assert used.has("docs/deep/new.md", changes_names=True)
    assert not used.has("docs/deep/old.md", changes_names=False)
    assert not used.has("docs/new.md", changes_names=True)


def test_what_could_not_be_followed_is_no_sign_of_a_flaky_case() -> None:
    text = "\n".join(bisect_lines(replace(REPORT, unused=["r.sh"], unfollowed=["subprocess r.sh\x07"])))

    assert "could be followed (subprocess r.sh" in text
    assert "not known to be used by the case: r.sh" in text
    assert "flaky; try" not in text
    assert "\x07" not in text


def test_a_commit_that_changed_nothing_used_suggests_repeats() -> None:
    sentence = "nothing that the case is known to use changed in this commit"

    assert f"{sentence}: it may be flaky; try --repeats 10" in bisect_lines(REPORT)
    assert sentence in bisect_lines(replace(REPORT, repeats=10, confidence=0.97))
