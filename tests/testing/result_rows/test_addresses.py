"""Results that are written to URLs: fsspec's memory file system and a local server."""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Iterator

import pytest

from tests.serving import QuietHandler, run_http_server
from workbench.store.datasets.remote_data import fetch
from workbench.testing import EvalTask, EvaluationError

ANSWERS = {"response": ["A", "x"], "reference": ["A", "B"]}


class Site:
    """A web server that accepts files and responds with `status`."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.status = 200
        site = self

        class Handler(QuietHandler):
            def do_PUT(self) -> None:
                site.files[self.path] = self.rfile.read(int(self.headers["Content-Length"]))
                self.send_response(site.status)
                self.send_header("Content-Length", "0")
                self.end_headers()

        self.handler = Handler
        self.address = ""


@pytest.fixture
def site() -> Iterator[Site]:
    site = Site()
    with run_http_server(site.handler) as site.address:
        yield site


@pytest.mark.needs_fsspec
@pytest.mark.parametrize(
    ("prefix", "message"),
    [
        ("gs://bucket/out", "gs://bucket/out: gs:// needs gcsfs: pip install gcsfs"),
        ("nosuch://a/out", "nosuch://a/out: found nosuch://, expected an address that fsspec knows"),
    ],
)
def test_urls_that_cannot_be_written_are_refused(prefix: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gcsfs", None)

    with pytest.raises(EvaluationError) as raised:
        EvalTask(dataset=ANSWERS, metrics=["exact_match"], output_uri_prefix=prefix)

    assert str(raised.value) == f"output_uri_prefix: {message}"


@pytest.mark.needs_fsspec
def test_results_are_written_to_a_url() -> None:
    task = EvalTask(dataset=ANSWERS, metrics=["exact_match"], output_uri_prefix="memory://bucket/out/", history=False)

    task.evaluate(output_file_name="table.csv")
    reread = EvalTask(dataset="memory://bucket/out/table/table.csv", metrics=["exact_match"], history=False).evaluate()

    assert [row["exact_match/score"] for row in reread.rows] == [1.0, 0.0]
    summary = json.loads(fetch("memory://bucket/out/table/summary_metrics.json"))
    assert summary["summary_metrics"]["exact_match/mean"] == 0.5


@pytest.mark.needs_fsspec
@pytest.mark.parametrize("status", [200, 403])
def test_a_server_receives_the_files_and_a_refusal_is_only_a_warning(site: Site, status: int) -> None:
    site.status = status
    prefix = f"{site.address}/out?signature=secret"
    task = EvalTask(dataset=ANSWERS, metrics=["exact_match"], output_uri_prefix=prefix, history=False)

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        result = task.evaluate(output_file_name="t.jsonl")

    messages = [str(warning.message) for warning in caught if warning.category is UserWarning]
    assert result.summary_metrics["exact_match/mean"] == 0.5
    if status == 200:
        assert list(site.files) == [
            "/out/t/t.jsonl?signature=secret",
            "/out/t/summary_metrics.json?signature=secret",
        ]
        assert messages == []
    else:
        (warning,) = messages
        assert warning.startswith(f"the result was not written: {site.address}/out/t/t.jsonl: cannot write it: ")
        assert "no permission without credentials" in warning
        assert "secret" not in warning
