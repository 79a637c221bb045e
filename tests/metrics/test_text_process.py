"""The text helper process: its imports, its robustness, and its end."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import pytest

from workbench.metrics import text_worker
from workbench.metrics.text_process import TextTask
from workbench.metrics.text_worker import TextScorer

PROGRAM = text_worker._PROGRAM
EQUAL = TextTask("response_match", "hello world", "hello world")
WORDS = (
    "the",
    "cats",
    "ran",
    "running",
    "generously",
    "e-mail",
    "3.14",
    "naïve",
    "ATOMIC",
    "relational",
    "hopefulness",
)


def run_python(program: str, *arguments: str, input: str = "", **environment: str) -> str:
    result = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), *arguments],
        input=input,
        capture_output=True,
        encoding="utf-8",
        env={**os.environ, **environment},
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_only_the_modules_that_rouge_needs_are_imported() -> None:
    program = """
        import sys
        from workbench.metrics.text_process import import_rouge
        import_rouge()
        print(*sys.modules)
    """

    modules = set(run_python(program).split())

    assert "nltk.stem.porter" in modules
    assert not modules & {"scipy", "sklearn", "pandas", "matplotlib", "nltk.corpus", "nltk.tokenize", "asyncio"}


async def test_scores_equal_those_of_the_complete_rouge_score_package() -> None:
    generator = random.Random(1)
    pairs = [[" ".join(generator.choices(WORDS, k=8)) for _ in range(2)] for _ in range(300)]
    program = """
        import json, sys
        from rouge_score.rouge_scorer import RougeScorer
        types = ["rouge1", "rouge2", "rougeL", "rougeLsum"]
        scorer = RougeScorer(types, use_stemmer=True)
        scores = [scorer.score(reference, candidate) for candidate, reference in json.load(sys.stdin)]
        print(json.dumps([[score[name].fmeasure for name in types] for score in scores]))
    """
    complete_scores = json.loads(run_python(program, input=json.dumps(pairs)))

    scorer = TextScorer()
    measures: tuple[Any, ...] = ("rouge_1", "rouge_2", "rouge_l", "rouge_l_sum")
    answers = await scorer.score(
        [
            TextTask(measure, candidate, reference, stemmer=True, tokenizer="rouge_score")
            for candidate, reference in pairs
            for measure in measures
        ]
    )
    await scorer.close()

    assert [answer.value for answer in answers] == [value for row in complete_scores for value in row]


def test_nltk_is_imported_completely_if_a_partial_import_fails(tmp_path: Path) -> None:
    stem = tmp_path / "nltk" / "stem"
    stem.mkdir(parents=True)
    (tmp_path / "nltk" / "__init__.py").write_text("needed = 1\n", encoding="utf-8")
    (stem / "__init__.py").write_text("", encoding="utf-8")
    (stem / "porter.py").write_text(
        "import nltk\nnltk.needed\nclass PorterStemmer:\n    def stem(self, word):\n        return word[:3]\n",
        encoding="utf-8",
    )
    program = """
        from workbench.metrics.text_process import TextTask, compute
        print(compute(TextTask("response_match", "running", "runner")).value)
    """

    assert run_python(program, PYTHONPATH=str(tmp_path)).strip() == "1.0"


async def test_modules_in_the_users_folder_shadow_no_imports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("json", "rouge_score", "nltk", "numpy", "re", "workbench"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('shadowed')\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.syspath_prepend(str(tmp_path))

    scorer = TextScorer()
    try:
        assert (await scorer.score([EQUAL]))[0].value == 1.0
    finally:
        await scorer.close()


def test_the_helper_answers_garbage_and_continues() -> None:
    task = list(EQUAL)
    lines = [b"garbage", b"\xff\xfe", b"[1]", b'{"id": 1, "tasks": [[]]}', b"[" * 100_000]
    good = json.dumps({"id": 7, "tasks": [task, ["no_such_measure", "a", "b"], ["rouge_1", None, 3]]}).encode()

    result = subprocess.run(
        [sys.executable, "-I", str(PROGRAM)],
        input=b"\n".join([*lines, good]),
        capture_output=True,
        check=True,
    )

    answers = [json.loads(line) for line in result.stdout.splitlines()]
    assert answers[0] == {"id": None, "ready": True}
    assert [answer["id"] for answer in answers[1:]] == [None] * len(lines) + [7]
    score, unknown, ill_typed = answers[-1]["answers"]
    assert score == [1.0, 2, 2]
    assert "no_such_measure" in unknown
    assert isinstance(ill_typed, str)


async def test_texts_with_any_characters_are_scored() -> None:
    scorer = TextScorer()
    texts = ["\ud800 lone", "line\nbreak\r\n\u2028", '{"id": 1}', "\x00\x1b[31m", "𝒳" * 10_000, "a " * 200_000]

    answers = await scorer.score([TextTask("rouge_1", text, text) for text in texts])
    await scorer.close()

    assert {answer.value for answer in answers} == {1.0}


@pytest.mark.skipif(os.name == "nt", reason="sends SIGKILL")
def test_the_helper_ends_with_its_parent(tmp_path: Path) -> None:
    program = """
        import asyncio, os
        from workbench.metrics.text_worker import TextScorer
        from workbench.metrics.text_process import TextTask

        async def main():
            scorer = TextScorer()
            await scorer.score([TextTask("rouge_1", "a", "a")])
            print((await scorer._get_helper())._process.pid, flush=True)
            await asyncio.sleep(600)

        asyncio.run(main())
    """
    with subprocess.Popen([sys.executable, "-c", textwrap.dedent(program)], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        parent.send_signal(signal.SIGKILL)

    for _ in range(600):
        if not _is_running(pid):
            return
        time.sleep(0.1)
    os.kill(pid, signal.SIGKILL)
    pytest.fail("the helper outlived its parent by a minute")


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    status = Path(f"/proc/{pid}/stat")
    # An ended orphan stays a zombie until init reaps it.
    return not (status.exists() and status.read_text(encoding="utf-8").rpartition(")")[2].split()[0] == "Z")
