"""The client of the process that compares texts: its requests, restarts and failures."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import textwrap
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from workbench.metrics import text_worker
from workbench.metrics.text_process import TextTask
from workbench.metrics.text_worker import TextError, TextScorer

EQUAL = TextTask("response_match", "hello world", "hello world")


@pytest.fixture
def fake_helper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Replace the helper by a program of the test; return the file that records each start."""

    def install(program: str) -> Path:
        starts = tmp_path / "starts"
        script = tmp_path / "helper.py"
        note = f"open({str(starts)!r}, 'a').write('started\\n')\n"
        script.write_text("import sys, json, os\n" + note + textwrap.dedent(program), encoding="utf-8")
        monkeypatch.setattr(text_worker, "_PROGRAM", script)
        return starts

    return install


async def test_concurrent_requests_get_their_own_answers() -> None:
    scorer = TextScorer()
    scorer.start()

    answers = await asyncio.gather(
        *(scorer.score([TextTask("rouge_1", "w " * (index + 1), "w")] * 3) for index in range(200))
    )
    await scorer.close()

    assert [[score.candidate_units for score in answer] for answer in answers] == [[n + 1] * 3 for n in range(200)]


def test_the_scorer_works_on_the_event_loop_of_another_thread() -> None:
    """The engine has its own thread and event loop."""

    async def score() -> float:
        scorer = TextScorer()
        try:
            return (await scorer.score([EQUAL]))[0].value
        finally:
            await scorer.close()

    with ThreadPoolExecutor(1) as thread:
        assert thread.submit(lambda: asyncio.run(score())).result() == 1.0


async def test_a_killed_helper_restarts_and_no_request_is_lost() -> None:
    scorer = TextScorer()
    await scorer.score([EQUAL])
    helper = await scorer._get_helper()
    helper._process.kill()

    scores = await asyncio.gather(*(scorer.score([EQUAL]) for _ in range(20)))
    await scorer.close()

    assert {answer[0].value for answer in scores} == {1.0}


async def test_only_the_text_that_kills_the_helper_has_no_score(fake_helper: Callable[[str], Path]) -> None:
    fake_helper("""
        print(json.dumps({"id": None, "ready": True}), flush=True)
        for line in sys.stdin:
            if "poison" in line:
                print("out of luck", file=sys.stderr)
                os._exit(7)
            request = json.loads(line)
            print(json.dumps({"id": request["id"], "answers": [[0.5, 1, 1] for _ in request["tasks"]]}), flush=True)
    """)
    scorer = TextScorer()
    texts = ["good", "poison", "fine", "better"]

    outcomes = await asyncio.gather(
        *(scorer.score([TextTask("rouge_1", text, text)]) for text in texts), return_exceptions=True
    )
    later_scores = await scorer.score([EQUAL])
    await scorer.close()

    assert [isinstance(outcome, TextError) for outcome in outcomes] == [False, True, False, False]
    message = str(outcomes[1])
    assert "exit status 7" in message
    assert "out of luck" in message
    assert later_scores[0].value == 0.5


DIES_WHILE_IT_STARTS = """
    import signal
    if open({starts!r}).read().count("started") <= {times}:
        os.kill(os.getpid(), signal.{signal})
    print(json.dumps({{"id": None, "ready": True}}), flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        print(json.dumps({{"id": request["id"], "answers": [[0.5, 1, 1] for _ in request["tasks"]]}}), flush=True)
"""


@pytest.mark.skipif(os.name == "nt", reason="sends SIGKILL")
@pytest.mark.parametrize(("times", "works"), [(1, True), (2, True), (9, False)])
async def test_a_helper_killed_during_its_start_is_replaced_at_most_twice(
    fake_helper: Callable[[str], Path], tmp_path: Path, times: int, works: bool
) -> None:
    program = DIES_WHILE_IT_STARTS.format(starts=str(tmp_path / "starts"), times=times, signal="SIGKILL")
    starts = fake_helper(program)
    scorer = TextScorer()

    outcomes = await asyncio.gather(*(scorer.score([EQUAL]) for _ in range(20)), return_exceptions=True)
    await scorer.close()

    assert [isinstance(outcome, list) for outcome in outcomes] == [works] * 20
    assert works or "exit status -9 (3 times)" in str(outcomes[0])
    assert starts.read_text(encoding="utf-8").count("started") == min(times + 1, 3)


@pytest.mark.skipif(os.name == "nt", reason="sends SIGSTOP")
@pytest.mark.parametrize("times", [1, 9])
async def test_a_helper_stopped_during_its_start_is_replaced(
    fake_helper: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    monkeypatch.setattr(text_worker, "SECONDS_TO_START", 1.0)
    monkeypatch.setattr(text_worker, "_SECONDS_TO_END", 0.1)
    fake_helper(DIES_WHILE_IT_STARTS.format(starts=str(tmp_path / "starts"), times=times, signal="SIGSTOP"))
    scorer = TextScorer()

    scores = (scorer.score([EQUAL]) for _ in range(5))
    outcomes = await asyncio.wait_for(asyncio.gather(*scores, return_exceptions=True), 40)
    await scorer.close()

    if times == 1:
        assert all(isinstance(outcome, list) for outcome in outcomes)
    else:
        assert "the text helper did not answer within 1 s" in str(outcomes[0])


@pytest.mark.skipif(os.name == "nt", reason="sends SIGSTOP")
async def test_a_helper_stopped_during_its_work_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    scorer = TextScorer()
    await scorer.score([EQUAL])
    helper = await scorer._get_helper()
    os.kill(helper._process.pid, signal.SIGSTOP)
    monkeypatch.setattr(text_worker, "SECONDS_TO_ANSWER", 3.0)

    large = TextTask("rouge_1", "word " * 100_000, "word")  # does not fit into the pipe
    answer = await asyncio.wait_for(scorer.score([large]), 120)
    await scorer.close()

    assert answer[0].candidate_units == 100_000
    assert helper.is_dead


async def test_a_helper_that_cannot_start_is_not_retried_for_each_case(
    fake_helper: Callable[[str], Path],
) -> None:
    starts = fake_helper("raise ImportError('no such library')")
    scorer = TextScorer()

    for _ in range(5):
        with pytest.raises(TextError, match="no such library"):
            await scorer.score([EQUAL])
    await scorer.close()

    assert starts.read_text(encoding="utf-8").count("started") == 1


async def test_a_missing_interpreter_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    scorer = TextScorer()

    with pytest.raises(TextError, match="could not be started"):
        await scorer.score([EQUAL])
    await scorer.close()


async def test_an_invalid_answer_ends_the_helper_with_a_reason(fake_helper: Callable[[str], Path]) -> None:
    fake_helper("""
        print(json.dumps({"id": None, "ready": True}), flush=True)
        sys.stdin.readline()
        print("Traceback: this is no JSON", flush=True)
        sys.stdin.read()
    """)
    scorer = TextScorer()

    with pytest.raises(TextError, match="an invalid answer"):
        await scorer.score([EQUAL])
    await scorer.close()


async def test_a_helper_that_ends_while_the_event_loop_is_blocked_can_be_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scorer = TextScorer()
    await scorer.score([EQUAL])
    monkeypatch.setattr(text_worker, "_SECONDS_TO_END", 0.05)
    asyncio.get_running_loop().call_later(0.01, time.sleep, 0.5)

    await scorer.close()


async def test_a_scorer_can_be_closed_before_its_start_and_then_refuses_requests() -> None:
    scorer = TextScorer()
    await scorer.close()

    with pytest.raises(TextError, match="closed"):
        await scorer.score([EQUAL])
