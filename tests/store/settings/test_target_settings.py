"""[targets.NAME] of workbench.toml: the settings of each kind of agent, and the messages for invalid ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from workbench.model.target import Target
from workbench.store.errors import StoreError
from workbench.store.project_discovery import find_agent_folder, make_configured_target
from workbench.store.settings import load_settings

URL = "an http:// or https:// URL, without user and password (a header may hold them)"
ENGINE = "package.module:name, or projects/PROJECT/locations/LOCATION/reasoningEngines/ID"


def read_target(root: Path, text: str) -> Target:
    (root / "workbench.toml").write_text(text, encoding="utf-8")
    settings = load_settings(root, user_file=root / "none.toml").settings
    return make_configured_target("x", settings.targets["x"], root=root)


@pytest.mark.parametrize(
    ("kind", "target"),
    [
        ("langchain", "agents.chain:make_chain"),
        ("agent_engine", "agents.app:app"),
        ("agent_engine", "projects/p-1/locations/europe-west1/reasoningEngines/123"),
        ("a2a", "https://agents.example.com/.well-known/agent-card.json"),
        ("http", "http://127.0.0.1:8000/chat?key=${CHAT_KEY}"),
        ("http", "http://[::1]:8000"),
        ("command", "node agent.js --name 'Some One'"),
    ],
)
def test_the_target_of_each_kind_is_kept_unchanged(tmp_path: Path, kind: str, target: str) -> None:
    found = read_target(tmp_path, f"[targets.x]\nkind = '{kind}'\ntarget = \"{target}\"")

    assert (found.kind, found.location, found.options) == (kind, target, {})


@pytest.mark.parametrize(
    ("kind", "target", "expected"),
    [
        ("langchain", "agents/chain.py", "package.module:name"),
        ("langchain", "", "package.module:name"),
        ("agent_engine", "projects/p-1/reasoningEngines/123", ENGINE),
        ("a2a", "agents.example.com", URL),
        ("a2a", "ftp://agents.example.com", URL),
        ("http", "", URL),
        ("http", "http://", URL),
        ("http", "http://host:port/", URL),
        ("http", "http://host/a b", URL),
        ("command", "", "a program with its arguments"),
        ("command", " ", "a program with its arguments"),
        ("command", "node 'agent.js", "a program with its arguments"),
    ],
)
def test_a_target_that_does_not_fit_its_kind_is_an_error(tmp_path: Path, kind: str, target: str, expected: str) -> None:
    with pytest.raises(StoreError) as raised:
        read_target(tmp_path, f'[targets.x]\nkind = "{kind}"\ntarget = "{target}"')

    found = repr(target) if target else "nothing"
    assert (
        str(raised.value) == f"{tmp_path / 'workbench.toml'}:3:1: targets.x.target: found {found}, expected {expected}"
    )


def test_a_password_in_a_url_is_refused_and_not_repeated(tmp_path: Path) -> None:
    with pytest.raises(StoreError) as raised:
        read_target(tmp_path, "[targets.x]\nkind = 'http'\ntarget = 'http://me:hunter22@host/'")

    assert "found 'http://...@host/'" in str(raised.value)
    assert "hunter22" not in str(raised.value)


def test_a_program_may_be_a_list(tmp_path: Path) -> None:
    found = read_target(tmp_path, "[targets.x]\nkind = 'command'\ntarget = ['node', 'my agent.js']")

    assert found.location == "node 'my agent.js'"


def test_the_table_of_a_kind_reaches_the_target_as_plain_data(tmp_path: Path) -> None:
    found = read_target(
        tmp_path,
        "[targets.x]\nkind = 'http'\ntarget = 'http://host'\n[targets.x.http]\nresponse = '$.text'\n"
        "headers = { Authorization = 'Bearer ${TOKEN}' }\nbody = { q = '{{ prompt }}', n = 3 }",
    )

    assert found.options == {
        "response": "$.text",
        "headers": {"Authorization": "Bearer ${TOKEN}"},
        "body": {"q": "{{ prompt }}", "n": 3},
    }
    assert hash(found) == hash(found.model_copy())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "kind = 'function'\ntarget = 'a:b'\n[targets.x.http]",
            "targets.x.http: found a table, expected no such table: only a target of kind http has one",
        ),
        ("kind = 'http'\ntarget = 'http://h'\nhttp = 3", "targets.x.http: found 3, expected a table"),
        (
            "kind = 'http'\ntarget = 'http://h'\n[targets.x.http]\nmethod = 'POTS'",
            "targets.x.http.method: found 'POTS', expected 'POST', 'PUT', 'PATCH' or 'GET'",
        ),
        (
            "kind = 'http'\ntarget = 'http://h'\n[targets.x.http]\notlp_port = 70000",
            "targets.x.http.otlp_port: found 70000, expected 65535 or less",
        ),
        (
            "kind = 'command'\ntarget = 'cat'\n[targets.x.command]\notlp = 1",
            "targets.x.command.otlp: found 1, expected true or false",
        ),
        (
            "kind = 'http'\ntarget = 'http://h'\n[targets.x.http]\nbody = 3",
            "targets.x.http.body: found 3, expected a table, or a template as text",
        ),
        (
            "kind = 'http'\ntarget = 'http://h'\n[targets.x.http.headers]\n'X Y' = 'a'",
            "targets.x.http.headers: found a table, expected a valid header name, not 'X Y'",
        ),
        (
            "kind = 'a2a'\ntarget = 'http://h'\n[targets.x.a2a.headers]\nKey = '${TOKEN'",
            "targets.x.a2a.headers: found a table, expected ${NAME} with the name of a variable in Key",
        ),
        (
            "kind = 'http'\ntarget = 'http://h'\n[targets.x.http.headers]\nKey = \"a\\nb\"",
            "targets.x.http.headers: found a table, expected printable ASCII text as the value of Key",
        ),
    ],
)
def test_an_invalid_table_is_an_error(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(StoreError) as raised:
        read_target(tmp_path, f"[targets.x]\n{text}")

    assert str(raised.value).endswith(message)


def test_an_unknown_key_in_the_table_of_a_kind_is_reported(tmp_path: Path) -> None:
    (tmp_path / "workbench.toml").write_text(
        "[targets.x]\nkind = 'http'\ntarget = 'http://h'\n[targets.x.http]\nheader = { a = 'b' }\n"
    )

    loaded = load_settings(tmp_path, user_file=tmp_path / "none.toml")

    (problem,) = loaded.problems
    assert problem.startswith(f"{tmp_path / 'workbench.toml'}:5: targets.x.http.header: unknown key")
    assert problem.endswith("did you mean 'headers'?")


def test_only_a_local_python_agent_has_a_folder_and_runs_in_a_worker(tmp_path: Path) -> None:
    (tmp_path / "agents").mkdir()
    targets = {
        name: read_target(tmp_path, f"[targets.x]\nkind = '{kind}'\ntarget = '{target}'")
        for name, kind, target in (
            ("http", "http", "http://h"),
            ("a2a", "a2a", "http://h"),
            ("deployed", "agent_engine", "projects/p/locations/l/reasoningEngines/1"),
            ("local", "agent_engine", "agents.app:app"),
            ("command", "command", "node agent.js"),
        )
    }

    assert {name for name, target in targets.items() if target.is_remote} == {"http", "a2a", "deployed"}
    assert {name for name, target in targets.items() if target.runs_in_worker} == {"local"}
    assert {name for name, target in targets.items() if target.has_recorded_models} == {"local", "command"}
    assert {name for name, target in targets.items() if find_agent_folder(target)} == {"local"}
