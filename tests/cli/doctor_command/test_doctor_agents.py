"""`workbench doctor` on agents: their requirements, and with `--check` whether they are reachable."""

from __future__ import annotations

import socket
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import CommandLine
from tests.llm.servers import run_server
from tests.serving import QuietHandler, run_http_server
from workbench.cli import dataset_commands


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
    assert "  gone: the program 'no-such-program' does not exist or is not executable\n" in done.out


def test_programs_are_started_and_asked_nothing_only_when_told_to(workbench: CommandLine) -> None:
    configure(
        workbench,
        f"[targets.good]\nkind = 'command'\ntarget = ['{sys.executable}', 'good.py']",
        f"[targets.bad]\nkind = 'command'\ntarget = ['{sys.executable}', '-c', 'import no_such_thing']",
        f"[targets.chatty]\nkind = 'command'\ntarget = ['{sys.executable}', '-c', 'print(1)']",
        "[targets.gone]\nkind = 'command'\ntarget = 'no-such-program'",
    )
    workbench.write("good.py", "import sys\nfor line in sys.stdin: open('asked', 'w')\nopen('started', 'w')\n")

    quiet = workbench("doctor")
    assert not (workbench.root / "started").exists()
    asked = workbench("doctor", "--check")

    assert quiet.out.count("    --check tests whether it starts\n") == 4
    assert asked.out.count("    starts\n") == 1
    assert (workbench.root / "started").exists() and not (workbench.root / "asked").exists()
    assert "ended with exit status 1 before it had answered: ModuleNotFoundError: No module named" in asked.out
    assert " wrote the line '1' after its last turn" in asked.out
    assert asked.out.count("no-such-program") == 2  # its line, and its problem


def test_what_a_recorded_target_holds_is_read(workbench: CommandLine) -> None:
    case = '{"eval_id": "one", "conversation": [{"user_content": {"parts": [{"text": "hi"}]}}]}'
    workbench.write("there.evalset.json", f'{{"eval_set_id": "t", "eval_cases": [{case}]}}')
    workbench.write("broken.evalset.json", "{")
    workbench.write(
        "rows.jsonl", '{"prompt": "a", "response": "b"}\n' + '{"prompt": "a", "predicted_trajectory": 3}\n' * 7
    )
    workbench.write("good.jsonl", '{"prompt": "a", "response": "b"}\n')
    configure(
        workbench,
        *(
            f"[targets.{name}]\nkind = 'recorded'\ntarget = '{name}.evalset.json'"
            for name in ("there", "broken", "gone")
        ),
        "[targets.rows]\nkind = 'recorded'\neval_sets = ['rows.jsonl', 'good.jsonl']",
    )

    done = workbench("doctor")

    assert done.status == 2
    assert "    holds 1 recorded case\n" in done.out
    assert "  gone: gone.evalset.json: cannot read it: there is no such file or folder\n" in done.out
    assert "  broken: broken.evalset.json:" in done.out
    assert "  rows.jsonl:2:" in done.out
    assert "  rows.jsonl: 2 more rows (`workbench dataset lint` lists all)\n" in done.out
    assert "there.evalset.json:" not in done.out.partition("problems:")[2]
    assert "good.jsonl:" not in done.out.partition("problems:")[2]


@pytest.mark.needs_fsspec
def test_datasets_elsewhere_are_opened_when_told_to_and_a_silent_one_holds_up_nothing(
    workbench: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dataset_commands, "_PATIENCE", 1.5)
    asked: list[str] = []

    class Files(QuietHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(200 if self.path.startswith("/rows.jsonl?") else 404)
            self.send_header("Content-Length", "100000000")  # the body never arrives, and no client reads it
            self.end_headers()

    with run_http_server(Files) as site, socket.create_server(("127.0.0.1", 0)) as mute:
        silent = f"http://127.0.0.1:{mute.getsockname()[1]}/rows.csv"
        named = [f"{site}/rows.jsonl?signature=hush", f"{site}/gone.csv", silent, "s3://bucket/rows.txt", "bq://table"]
        configure(workbench, f"[targets.far]\nkind = 'recorded'\neval_sets = {named}")

        quiet = workbench("doctor")
        assert asked == []
        done = workbench("doctor", "--check")

    assert quiet.out.count("    --check tests whether it can be reached\n") == 5
    assert done.status == 2
    assert f"  {site}/rows.jsonl: far\n    reached\n" in done.out
    assert done.out.count("    not reached\n") == 4
    assert f"  {site}/gone.csv: cannot read it: there is no such file\n" in done.out
    assert f"  {silent}: cannot read it: no answer within 1.5 s\n" in done.out
    assert "  s3://bucket/rows.txt: is no dataset: expected a name that ends in" in done.out
    assert "  bq://table: found 'bq://table', expected bq://PROJECT.DATASET.TABLE\n" in done.out
    assert sorted(asked) == ["/gone.csv", "/rows.jsonl?signature=hush"]
    assert "hush" not in done.out


@pytest.mark.needs_a2a
def test_the_card_of_an_agent_is_read_when_told_to(workbench: CommandLine) -> None:
    from tests.agents.worker.adapters.a2a.servers import serving as serving_a2a

    with serving_a2a() as agent, serving_a2a() as other:
        other.card = {"hello": 1}
        configure(
            workbench,
            f"[targets.lamps]\nkind = 'a2a'\ntarget = '{agent.url}'",
            f"[targets.none]\nkind = 'a2a'\ntarget = '{other.url}'",
        )

        done = workbench("doctor", "--check")

    assert "    reached: agent card of lamps\n" in done.out
    assert "  none: " in done.out and "is no agent card: expected an object with a name" in done.out
    assert agent.executor.contexts == []


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
    with socket.socket() as taken, run_server(lambda call: pytest.fail("no prompt is sent")) as server:
        taken.bind(("127.0.0.1", 0))
        nobody = f"http://127.0.0.1:{taken.getsockname()[1]}/"
        configure(
            workbench,
            f"[targets.web]\nkind = 'http'\ntarget = '{server.url}/chat'",
            f"[targets.gone]\nkind = 'http'\ntarget = '{nobody}'",
        )

        quiet, asked = workbench("doctor"), workbench("doctor", "--check")

    assert "cannot be reached" not in quiet.out
    assert quiet.out.count("    --check tests whether it can be reached\n") == 2
    assert asked.status == 2
    assert "    reached: the server answers (status 501)\n" in asked.out
    assert f"  gone: {nobody} cannot be reached: " in asked.out


def test_a_deployed_agent_needs_no_framework_of_its_own(
    workbench: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "vertexai", None)  # as if it were not installed
    configure(
        workbench,
        "[targets.far]\nkind = 'agent_engine'\ntarget = 'projects/p/locations/us-central1/reasoningEngines/7'",
    )

    assert "is not installed" not in workbench("doctor").out


def test_an_extra_that_is_missing_is_named(workbench: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "langchain_core", None)  # as if it were not installed
    configure(
        workbench,
        "[targets.chain]\nkind = 'langchain'\ntarget = 'agent:chain'",
        f"[targets.other]\nkind = 'langchain'\ntarget = 'agent:chain'\npython = '{sys.executable}'",
    )

    done = workbench("doctor")

    assert done.status == 2
    assert '  chain: the extra langchain is not installed: pip install "agent-eval-workbench[langchain]"\n' in done.out
    assert "    needs langchain_core in its own interpreter, which is not checked\n" in done.out


@pytest.mark.parametrize(
    ("version", "told"),
    [
        ("1.17.0", "  old: google-adk 1.17.0 is too old, expected 1.18 or newer: pip install -U google-adk (in "),
        (None, "  old: google-adk is not installed for its interpreter "),
        ("1.18.0", "no problems found"),
    ],
)
def test_a_google_adk_that_cannot_be_used_is_a_problem(
    workbench: CommandLine, tmp_path: Path, version: str | None, told: str
) -> None:
    environment = tmp_path / "venv"
    packages = environment / "lib/python3.11/site-packages"
    packages.mkdir(parents=True)
    (environment / "pyvenv.cfg").write_text("include-system-site-packages = false\n")
    (environment / "bin").mkdir()
    (environment / "bin/python").symlink_to(sys.executable)
    if version is not None:
        (packages / f"google_adk-{version}.dist-info").mkdir()
        (packages / f"google_adk-{version}.dist-info/METADATA").write_text(f"Name: google-adk\nVersion: {version}\n")
    workbench.write("home/agent.py", "from google.adk.agents import Agent\nroot_agent = Agent(name='home')")
    configure(workbench, f"[targets.old]\nkind = 'adk'\ntarget = 'home'\npython = '{environment}/bin/python'")

    assert told in workbench("doctor").out


def test_an_error_in_a_file_of_sessions_is_a_problem(workbench: CommandLine) -> None:
    case = '{"eval_id": "one", "conversation": [{"user_content": {"parts": [{"text": "hi"}]}}]}'
    workbench.write("then.json", f'{{"eval_set_id": "a/b", "eval_cases": [{case}]}}')
    configure(workbench, "[targets.then]\nkind = 'recorded'\ntarget = 'then.json'")

    done = workbench("doctor")

    assert done.status == 2
    assert "  then: then.json:1:17: error: eval_set_id: ADK cannot save" in done.out
