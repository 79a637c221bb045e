"""Remote datasets: fsspec addresses and BigQuery, on real local servers."""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.serving import QuietHandler, run_http_server
from workbench.model.trace import ToolCall
from workbench.store.datasets import remote_data
from workbench.store.datasets.dataset_files import check_dataset_reachable, read_dataset, read_recorded
from workbench.store.datasets.remote_data import is_address
from workbench.store.errors import StoreError


class Site:
    """A web server; `answers` maps a path to status, content type and content."""

    def __init__(self) -> None:
        self.answers: dict[str, tuple[int, str, bytes]] = {}
        self.requested_paths: list[str] = []
        site = self

        class Handler(QuietHandler):
            def do_GET(self) -> None:
                site.requested_paths.append(self.path)
                status, kind, content = site.answers.get(
                    self.path.partition("?")[0], (404, "text/html", b"<h1>no</h1>")
                )
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

        self.handler = Handler
        self.address = ""


@pytest.fixture
def site() -> Iterator[Site]:
    site = Site()
    with run_http_server(site.handler) as site.address:
        yield site


@pytest.mark.parametrize("text", ["https://a/b.jsonl", "gs://b/c.csv", "bq://p.d.t", "s3://b/c"])
def test_urls_are_distinguished_from_paths(text: str) -> None:
    assert is_address(text)
    assert not is_address(f"./{text}")
    assert not is_address("C:/rows.jsonl")
    assert not is_address("https://[a/b.jsonl")


@pytest.mark.needs_fsspec
def test_a_silent_server_is_a_timeout_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_data, "_SILENT_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}/rows.csv"

        with pytest.raises(StoreError, match=r"rows\.csv: cannot read it: no answer within 0\.2 s"):
            read_dataset(address)


@pytest.mark.needs_fsspec
def test_a_file_on_the_web_is_a_dataset(site: Site) -> None:
    site.answers["/sets/rows.jsonl"] = (200, "text/plain", b'{"prompt": "a"}\n{"prompt": 5}\n')

    recorded = read_recorded(f"{site.address}/sets/rows.jsonl?signature=secret")

    assert recorded.eval_set_id == "rows"
    assert [case.problem for case in recorded.cases] == [
        None,
        f"{site.address}/sets/rows.jsonl:2:12: prompt: found a number, expected text",
    ]


@pytest.mark.needs_fsspec
@pytest.mark.parametrize(
    ("status", "reason"),
    [(404, "there is no such file"), (403, "no permission without credentials"), (500, "cannot read it: 500")],
)
def test_a_refusal_of_a_server_is_one_error_without_the_signature(site: Site, status: int, reason: str) -> None:
    site.answers["/rows.jsonl"] = (status, "text/html", b"<h1>no</h1>")

    with pytest.raises(StoreError) as raised:
        read_dataset(f"{site.address}/rows.jsonl?signature=secret")

    assert reason in str(raised.value)
    assert "secret" not in str(raised.value)


@pytest.mark.needs_fsspec
def test_an_unreachable_or_unknown_url_is_one_error() -> None:
    with pytest.raises(StoreError, match=r"cannot read it: cannot connect to 127\.0\.0\.1:\d+: Connection refused"):
        read_dataset("http://127.0.0.1:9/rows.jsonl")
    with pytest.raises(StoreError, match="found nosuch://, expected an address that fsspec knows"):
        read_dataset("nosuch://a/rows.jsonl")
    with pytest.raises(StoreError, match="is not a dataset: expected a name that ends in"):
        read_dataset("https://127.0.0.1:9/rows.txt")


@pytest.mark.needs_fsspec
def test_only_an_existing_file_in_a_storage_is_reachable() -> None:
    import fsspec

    fsspec.filesystem("memory").pipe_file("/far/rows.jsonl/part", b"{}")
    fsspec.filesystem("memory").pipe_file("/far/good.jsonl", b"{}")

    check_dataset_reachable("memory://far/good.jsonl")
    for name in ("rows", "none"):
        with pytest.raises(StoreError, match=rf"{name}\.jsonl: cannot read it: there is no such file"):
            check_dataset_reachable(f"memory://far/{name}.jsonl")


@pytest.mark.needs_fsspec
def test_a_filesystem_that_returns_no_bytes_is_one_error() -> None:
    import fsspec

    class Strange(fsspec.AbstractFileSystem):
        protocol = "strange"

        def cat_file(self, path: str, start: int | None = None, end: int | None = None, **_: Any) -> Any:
            return f"{path} {start} {end}"

    fsspec.register_implementation("strange", Strange, clobber=True)

    with pytest.raises(StoreError, match="cannot read it: its filesystem gave a str, expected bytes"):
        read_dataset("strange://a/rows.jsonl")


@pytest.mark.needs_fsspec
@pytest.mark.parametrize(("scheme", "package"), [("gs", "gcsfs"), ("s3", "s3fs")])
def test_a_bucket_without_its_package_names_the_package(
    scheme: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)

    with pytest.raises(StoreError, match=f"{scheme}:// needs {package}: pip install {package}"):
        read_dataset(f"{scheme}://bucket/rows.jsonl")


def test_a_url_without_fsspec_names_the_extra_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fsspec", None)

    with pytest.raises(StoreError, match=r"pip install .*\[fsspec\]"):
        read_dataset("https://example.invalid/rows.jsonl")


SCHEMA = [
    {"name": "prompt", "type": "STRING", "mode": "NULLABLE"},
    {
        "name": "predicted_trajectory",
        "type": "RECORD",
        "mode": "REPEATED",
        "fields": [{"name": "tool_name", "type": "STRING"}, {"name": "tool_input", "type": "JSON"}],
    },
    {"name": "reference_trajectory", "type": "STRING", "mode": "NULLABLE"},
    {"name": "cost", "type": "NUMERIC", "mode": "NULLABLE"},
]
CALL = {"v": {"f": [{"v": "set"}, {"v": '{"device": "d2"}'}]}}


@pytest.mark.needs_bigquery
def test_a_table_of_bigquery_is_a_dataset(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BIGQUERY_EMULATOR_HOST", site.address)
    place = "/bigquery/v2/projects/p/datasets/d/tables/t"
    reference = {"projectId": "p", "datasetId": "d", "tableId": "t"}
    table = {"kind": "bigquery#table", "tableReference": reference, "schema": {"fields": SCHEMA}, "numRows": "2"}
    rows = [
        {"f": [{"v": "a"}, {"v": [CALL]}, {"v": "[]"}, {"v": "1.5"}]},
        {"f": [{"v": None}, {"v": []}, {"v": "nothing"}, {"v": None}]},
    ]
    site.answers[place] = (200, "application/json", json.dumps(table).encode())
    site.answers[f"{place}/data"] = (200, "application/json", json.dumps({"totalRows": "2", "rows": rows}).encode())

    check_dataset_reachable("bq://p.d.t")
    assert "maxResults=1&" in f"{site.requested_paths[-1]}&"
    first, second = read_dataset("bq://p.d.t").rows

    assert (first.prompt, first.columns["cost"], second.prompt) == ("a", 1.5, None)
    assert first.predicted_trajectory == [ToolCall("set", {"device": "d2"})]
    assert second.predicted_trajectory == []
    assert [str(problem) for problem in second.problems] == [
        "bq://p.d.t: row 2: reference_trajectory: found text, expected a list of tool calls or the JSON text of one"
    ]


@pytest.mark.needs_bigquery
def test_a_refusal_of_bigquery_is_one_error(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BIGQUERY_EMULATOR_HOST", site.address)
    denied = {"error": {"code": 403, "message": "Access Denied: Table p:d.t", "errors": [{"reason": "accessDenied"}]}}
    site.answers["/bigquery/v2/projects/p/datasets/d/tables/t"] = (403, "application/json", json.dumps(denied).encode())

    with pytest.raises(StoreError, match=r"bq://p\.d\.t: cannot read it: .*Access Denied"):
        read_dataset("bq://p.d.t")
    with pytest.raises(StoreError, match=r"bq://p\.d\.t: cannot read it: .*Access Denied"):
        check_dataset_reachable("bq://p.d.t")
    with pytest.raises(StoreError, match=r"bq://p\.d\.other: cannot read it"):
        read_dataset("bq://p.d.other")
    with pytest.raises(StoreError, match=r"found 'bq://table', expected bq://PROJECT\.DATASET\.TABLE"):
        read_dataset("bq://table")


@pytest.mark.needs_bigquery
def test_bigquery_without_credentials_says_how_to_sign_in(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    for name in ("BIGQUERY_EMULATOR_HOST", "GOOGLE_APPLICATION_CREDENTIALS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path))
    monkeypatch.setenv("NO_GCE_CHECK", "true")

    with pytest.raises(StoreError, match="gcloud auth application-default login"):
        read_dataset("bq://p.d.t")


def test_a_table_without_bigquery_names_the_extra_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "google.cloud", None)

    with pytest.raises(StoreError, match=r"pip install .*\[bigquery\]"):
        read_dataset("bq://p.d.t")
