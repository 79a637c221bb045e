"""Recorded model calls: files that can be committed, and the store of a project."""

from __future__ import annotations

import json
import multiprocessing
import random
import time
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.store.full_disk import no_space_left
from workbench.model.identity import CaseKey, JobKey
from workbench.store import model_answers
from workbench.store.errors import StoreError
from workbench.store.model_answers import (
    CallKind,
    RecordedCalls,
    RecordedModelCall,
    RecordedModels,
    Recording,
    RecordingStore,
    ReplyStore,
    add_recording,
    sort_recording,
)


def make_job(eval_id: str = "c", *, repeat: int = 0) -> JobKey:
    return JobKey(CaseKey(target="t", eval_set="s.evalset.json", eval_id=eval_id), repeat)


def make_recording(job: JobKey | None, *texts: str, part: CallKind = CallKind.MODELS) -> RecordedModels:
    return RecordedCalls(
        part,
        job,
        tuple(
            RecordedModelCall(
                turn=turn,
                request={"method": "POST", "url": "http://m", "body": {"text": text}},
                response={"status": 200, "headers": {}, "chunks": [[0.1, text]]},
                seconds=1.5,
            )
            for turn, text in enumerate(texts)
        ),
    )


def read_models(recording: Recording, job: JobKey | None, part: CallKind = CallKind.MODELS) -> RecordedModels | None:
    return recording.read(part, job, RecordedModelCall)


@given(st.text(min_size=1), st.integers(0, 3), st.lists(st.text(), max_size=4))
def test_recorded_calls_are_read_as_they_were_written(eval_id: str, repeat: int, texts: list[str]) -> None:
    recorded = make_recording(make_job(eval_id, repeat=repeat), *texts)

    lines = recorded.format_lines()

    assert lines.count("\n") == 1 + len(texts)
    read = RecordedCalls.parse_lines(lines, RecordedModelCall, fail=lambda _, wrong: StoreError("x", wrong))
    assert read == recorded


def test_a_file_is_sorted_by_case_and_repeat_and_the_last_recording_counts(tmp_path: Path) -> None:
    path = tmp_path / "calls.jsonl"
    for recorded in (
        make_recording(make_job("b"), "old"),
        make_recording(make_job("a", repeat=1), "second"),
        make_recording(make_job("a"), "first"),
        make_recording(make_job("b"), "new"),
    ):
        add_recording(path, recorded)

    sort_recording(path)

    heads = [json.loads(line) for line in path.read_text().splitlines() if line.startswith('{"format"')]
    assert [(head["eval_id"], head.get("repeat", 0)) for head in heads] == [("a", 0), ("a", 1), ("b", 0)]
    recording = Recording(path)
    assert read_models(recording, make_job("b")) == make_recording(make_job("b"), "new")
    assert read_models(recording, make_job("other")) is None
    before = path.read_bytes()
    sort_recording(path)
    assert path.read_bytes() == before


def test_all_parts_of_a_case_follow_each_other_in_one_file(tmp_path: Path) -> None:
    path = tmp_path / "calls.jsonl"
    blocks = [
        make_recording(make_job("b"), "1", part=CallKind.JUDGES),
        make_recording(make_job("a"), "2", part=CallKind.TOOLS),
        make_recording(None, "3", part=CallKind.JUDGES),
        make_recording(make_job("b"), "4"),
        make_recording(make_job("a"), "5"),
    ]
    for block in blocks:
        add_recording(path, block)

    sort_recording(path)

    recording = Recording(path)
    names = [(None if name.job is None else name.job.case.eval_id, name.part.value) for name in recording.blocks]
    assert names == [(None, "judges"), ("a", "models"), ("a", "tools"), ("b", "judges"), ("b", "models")]
    assert all(read_models(recording, block.job, block.part) == block for block in blocks)
    assert list(recording.iter_part(CallKind.TOOLS, RecordedModelCall)) == [blocks[1]]


def test_the_readable_cases_of_a_file_that_is_cut_off_can_be_replayed(tmp_path: Path) -> None:
    path = tmp_path / "calls.jsonl"
    add_recording(path, make_recording(make_job("a"), "1"))
    add_recording(path, make_recording(make_job("b"), "1", "2", "3"))
    lines = path.read_text().splitlines()
    path.write_text("\n".join(lines[:-1]) + "\n")

    recording = Recording(path)

    assert read_models(recording, make_job("a")) is not None
    with pytest.raises(StoreError, match=r"calls\.jsonl:5:1: found the end of the file after 2 of 3 calls"):
        read_models(recording, make_job("b"))


def test_recording_goes_on_after_a_writer_was_killed(tmp_path: Path) -> None:
    path = tmp_path / "calls.jsonl"
    add_recording(path, make_recording(make_job("a"), "1", "2"))
    path.write_bytes(path.read_bytes()[:-20])

    add_recording(path, make_recording(make_job("b"), "1"))

    assert read_models(Recording(path), make_job("b")) == make_recording(make_job("b"), "1")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("hello\n", r":1:1: found another content, expected recorded calls \(workbench-recording-1\)"),
        ('{"format":"workbench-recording-9","eval_id":"a"}\n', "found the format 'workbench-recording-9'"),
        ('{"format":"workbench-recording-1","target":"t","calls":0}\n', "a block without a name: part"),
        ('{"format":"workbench-recording-1","part":"models","target":"t"}\n', "a block without a name: calls"),
    ],
)
def test_a_file_that_is_no_recording_is_refused(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "calls.jsonl"
    path.write_text(content)

    with pytest.raises(StoreError, match=message):
        Recording(path)


def test_a_file_that_another_process_sorts_gives_the_calls_of_the_right_case(tmp_path: Path) -> None:
    path = tmp_path / "calls.jsonl"
    for name in "bca":
        add_recording(path, make_recording(make_job(name), f"answer {name}"))
    recording = Recording(path)

    sort_recording(path)

    for name in "abc":
        assert read_models(recording, make_job(name)) == make_recording(make_job(name), f"answer {name}")


def test_a_writer_that_was_killed_within_the_name_of_a_case_costs_only_this_case(tmp_path: Path) -> None:
    path = tmp_path / "calls.jsonl"
    add_recording(path, make_recording(make_job("a"), "1"))
    with path.open("a") as file:
        file.write('{"format":"workbench-recording-1","part":"mod')
    add_recording(path, make_recording(make_job("b"), "2"))

    sort_recording(path)

    recording = Recording(path)
    assert [name.job for name in recording.blocks] == [make_job("a"), make_job("b")]
    assert read_models(recording, make_job("b")) == make_recording(make_job("b"), "2")


@pytest.mark.parametrize("is_followed", [True, False])
@pytest.mark.parametrize("cut", [3, 150])
def test_a_writer_that_was_killed_leaves_the_earlier_calls_of_the_case(
    tmp_path: Path, is_followed: bool, cut: int
) -> None:
    path = tmp_path / "calls.jsonl"
    earlier = make_recording(make_job("a"), "1", "2")
    add_recording(path, earlier)
    add_recording(path, make_recording(make_job("a"), "3", "4"))
    path.write_bytes(path.read_bytes()[:-cut])
    if is_followed:
        add_recording(path, make_recording(make_job("b"), "5"))

    sort_recording(path)

    assert read_models(Recording(path), make_job("a")) == earlier


def test_files_of_earlier_versions_are_read_and_converted(tmp_path: Path) -> None:
    path = tmp_path / "calls.jsonl"
    now = make_recording(make_job("a"), "1")
    path.write_text(now.format_lines().replace('"workbench-recording-1","part":"models"', '"workbench-models-1"'))
    assert read_models(Recording(path), make_job("a")) == now

    call = {"turn": 1, "request": {"text": "q"}}
    path.write_text(f"{json.dumps({'format': 'workbench-calls-1', **call})}\n")
    old = read_models(Recording(path), None, CallKind.JUDGES)
    add_recording(path, now)

    recording = Recording(path)
    assert old is not None and old.calls[0].request == {"text": "q"}
    assert read_models(recording, None, CallKind.JUDGES) == old
    assert read_models(recording, make_job("a")) == now


def test_a_damaged_line_is_named(tmp_path: Path) -> None:
    path = tmp_path / "calls.jsonl"
    add_recording(path, make_recording(make_job("a"), "1", "2"))
    lines = path.read_text().splitlines()
    path.write_text("\n".join([lines[0], lines[1][:-5], lines[2]]))

    with pytest.raises(StoreError, match=r":2:1: found a line that is not JSON"):
        read_models(Recording(path), make_job("a"))


def _record_many(path: Path, name: str) -> None:
    for number in range(40):
        add_recording(path, make_recording(make_job(f"{name}{number}"), "x" * 5000))
        if number % 10 == 9:
            sort_recording(path)


def test_two_processes_may_record_into_one_file(tmp_path: Path) -> None:
    path = tmp_path / "calls.jsonl"
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=_record_many, args=(path, name)) for name in "ab"]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)

    recording = Recording(path)
    assert len(recording.blocks) == 80
    assert all(read_models(recording, job) is not None for _, job in recording.blocks)


def test_opening_a_large_file_does_not_read_its_calls(tmp_path: Path) -> None:
    path = tmp_path / "calls.jsonl"
    with path.open("w") as file:
        for number in range(3333):
            file.write(make_recording(make_job(f"case{number}"), *["x" * 3000] * 3).format_lines())

    started = time.process_time()
    recording = Recording(path)
    opening = time.process_time() - started
    started = time.process_time()
    for _, job in recording.blocks:
        read_models(recording, job)
    reading = time.process_time() - started

    print(f"\n{path.stat().st_size / 1e6:.0f} MB, 9,999 calls: opened in {opening:.3f} s, read in {reading:.2f} s")
    assert len(recording.blocks) == 3333
    assert opening < reading


def test_the_store_keeps_the_last_recordings_of_each_repeat(tmp_path: Path) -> None:
    store = RecordingStore(tmp_path)
    store.write(make_job(repeat=1), make_recording(make_job(repeat=1), "of another repeat"), name="0")
    for number in range(7):
        store.write(make_job(), make_recording(make_job(), f"{number}"), name=f"{number}")
    store.write(make_job(), make_recording(make_job(), "4 again"), name="4")
    store.close()

    again = RecordingStore(tmp_path)
    assert list(again.read(make_job())) == [make_recording(make_job(), text) for text in ("4 again", *"6532")]
    assert list(again.read(make_job(repeat=1))) == [make_recording(make_job(repeat=1), "of another repeat")]
    assert list(again.read(make_job("other"))) == []
    assert again.list_jobs() == {make_job(), make_job(repeat=1)}
    again.close()


def test_a_store_that_grew_too_large_drops_what_was_not_used_for_longest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_answers, "_MAX_BYTES", 100_000)
    store = ReplyStore(tmp_path)
    for number in range(30):
        store.put(f"key{number}", random.Random(number).randbytes(10_000).hex())
    store.close()

    with ReplyStore(tmp_path) as again:
        kept = [number for number in range(30) if again.get(f"key{number}") is not None]

    assert kept == list(range(30 - len(kept), 30))
    assert 5 <= len(kept) <= 10


def test_texts_are_read_on_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_answers, "_USE_NOTED_AFTER", -1.0)
    job = make_job()
    with closing(RecordingStore(tmp_path)) as store:
        store.write(job, make_recording(job, "answer"), name="prompt")

    with no_space_left(), closing(RecordingStore(tmp_path)) as store:
        assert list(store.read(job)) == [make_recording(job, "answer")]
        assert store.list_jobs() == {job}
        with pytest.raises(StoreError, match=r"recordings\.db: cannot be used: "):
            store.write(job, make_recording(job, "other"), name="other")


def test_all_texts_but_those_of_some_keys_are_deleted(tmp_path: Path) -> None:
    with ReplyStore(tmp_path) as store:
        for key in "abc":
            store.put(key, f"text {key}")

        store.drop_others(["b", "never stored"])

        assert (store.list_keys(), store.get("b")) == (["b"], "text b")
