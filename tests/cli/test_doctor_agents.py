"""`workbench doctor` on agents: what they need, whether it is there, and with `--check` whether they can be reached."""

from __future__ import annotations

import socket
import sys

import pytest

from tests.llm.servers import serving

from .conftest import CommandLine


def configure(workbench: CommandLine, *targets: str) -> None:
    workbench.write("workbench.toml", "\n".join(targets))


def test_a_program_is_looked_for(workbench: CommandLine) -> None:
    configure(
        workbench,
        f"[targets.there]\nkind = 'command'\ntarget = ['{sys.executable}', 'x.py']",
        "[targets.gone]\nkind = 'command'\ntarget = 'no-such-program --fast'",
        "[targets.own]\nkind = 'command'\ntarget = './agent.sh'",
    )
    workbench.write("agent.sh", "#!/bin/sh\n").chmod(0o755)

    done = workbench("doctor")

    assert done.status == 2
    assert f"    runs {sys.executable}\n" in done.out
    assert f"    runs {workbench.root / 'agent.sh'}\n" in done.out
    assert "  gone: the program 'no-such-program' is not there, or may not be run\n" in done.out


def test_a_module_is_looked_for_and_not_imported(workbench: CommandLine) -> None:
    configure(
        workbench,
        "[targets.gone]\nkind = 'function'\ntarget = 'nowhere.agent:answer'",
        "[targets.half]\nkind = 'function'\ntarget = 'desk.agent:answer'",
        "[targets.there]\nkind = 'function'\ntarget = 'desk.other:answer'",
        "[targets.installed]\nkind = 'function'\ntarget = 'json.tool:main'",
    )
    workbench.write("desk/other.py", "raise SystemExit('imported')")

    done = workbench("doctor")

    assert done.status == 2
    assert f"  gone: there is no module nowhere.agent in {workbench.root}\n" in done.out
    assert f"  half: there is no module desk.agent in {workbench.root}\n" in done.out
    assert done.out.count("there is no module") == 2


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        ("body = {question = '{{ promt }}'}", "found 'promt', expected one of prompt"),
        ("body = {question = '{{ prompt '}", "targets.web.http.body: line 1: "),
        ("response = '$..[['", "targets.web.http.response: found '$..[[', expected a JSONPath"),
    ],
)
def test_templates_and_paths_that_cannot_be_read_are_wrong_settings(
    workbench: CommandLine, table: str, problem: str
) -> None:
    target = "[targets.web]\nkind = 'http'\ntarget = 'http://127.0.0.1:9/'\neval_sets = ['home/*.evalset.json']\n"
    configure(workbench, f"{target}[targets.web.http]\n{table}\n")

    checked = workbench("doctor")
    ran = workbench("run", "web")

    assert checked.status == ran.status == 2
    assert problem in checked.out
    assert problem in ran.error
    assert "workbench.toml:5: " in ran.error


def test_variables_are_named_and_never_shown(workbench: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEB_TOKEN", "the-value-itself")
    monkeypatch.delenv("WEB_KEY", raising=False)
    configure(
        workbench,
        "[targets.web]\nkind = 'http'\ntarget = 'http://127.0.0.1:9/?key=${WEB_KEY}'\n"
        "http.headers = { Authorization = 'Bearer ${WEB_TOKEN}' }",
    )

    done = workbench("doctor", "--check")

    assert done.status == 2
    assert "    takes WEB_KEY, WEB_TOKEN from the environment\n" in done.out
    assert "  web: the environment variable WEB_KEY is not set\n" in done.out
    assert "the-value-itself" not in done.out


def test_the_value_in_a_url_that_cannot_be_reached_is_not_shown_in_another_spelling(
    workbench: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WEB_KEY", "sk very|secret^")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/"
        configure(workbench, f"[targets.web]\nkind = 'http'\ntarget = '{url}?key=${{WEB_KEY}}'")
        monkeypatch.setenv("http_proxy", "http://user:pass-word@127.0.0.1:9")
        monkeypatch.delenv("no_proxy", raising=False)

        done = workbench("doctor", "--check")

    assert "${WEB_KEY} cannot be reached: the proxy cannot be connected to: " in done.out
    assert "secret" not in done.out
    assert "pass-word" not in done.out


def test_a_url_is_asked_only_when_told_to(workbench: CommandLine) -> None:
    with socket.socket() as taken, serving(lambda call: pytest.fail("no prompt is sent")) as server:
        taken.bind(("127.0.0.1", 0))
        nobody = f"http://127.0.0.1:{taken.getsockname()[1]}/"
        configure(
            workbench,
            f"[targets.web]\nkind = 'http'\ntarget = '{server.url}/chat'",
            f"[targets.gone]\nkind = 'http'\ntarget = '{nobody}'",
        )

        quiet, asked = workbench("doctor"), workbench("doctor", "--check")

    assert "cannot be reached" not in quiet.out
    assert quiet.out.count("    whether it can be reached is asked with --check\n") == 2
    assert asked.status == 2
    assert "    reached: something answers there (status 501)\n" in asked.out
    assert f"  gone: {nobody} cannot be reached: " in asked.out


def test_a_deployed_agent_needs_no_framework_of_its_own(
    workbench: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "vertexai", None)  # as where it is not installed
    configure(
        workbench,
        "[targets.far]\nkind = 'agent_engine'\ntarget = 'projects/p/locations/us-central1/reasoningEngines/7'",
    )

    assert "is not installed" not in workbench("doctor").out


def test_an_extra_that_is_missing_is_named(workbench: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "langchain_core", None)  # as where it is not installed
    configure(
        workbench,
        "[targets.chain]\nkind = 'langchain'\ntarget = 'agent:chain'",
        f"[targets.other]\nkind = 'langchain'\ntarget = 'agent:chain'\npython = '{sys.executable}'",
    )

    done = workbench("doctor")

    assert done.status == 2
    assert '  chain: the extra langchain is not installed: pip install "agent-eval-workbench[langchain]"\n' in done.out
    assert "    needs langchain_core in its own interpreter, which is not looked into\n" in done.out
