"""`workbench doctor` on agents: their requirements, and with `--check` whether they are reachable."""

from __future__ import annotations

import socket
import sys
from pathlib import Path

import pytest

from tests.cli.command_line import CommandLine
from tests.llm.servers import run_server
from tests.serving import QuietHandler, run_http_server
from workbench.cli import evalset_commands
from workbench.model.installation import install_command


def configure(workbench: CommandLine, *targets: str) -> None:
    workbench.write("workbench.toml", "\n".join(targets))


def test_doctor_looks_for_the_program_of_a_command_agent(workbench: CommandLine) -> None:
    configure(
        workbench,
        f"[targets.there]\nkind = 'command'\ntarget = ['{sys.executable}', 'x.py']",
        "[targets.gone]\nkind = 'command'\ntarget = 'no-such-program --fast'",
        "[targets.own]\nkind = 'command'\ntarget = './agent.sh'",
    )
    workbench.write("agent.sh", "#!/bin/sh\n").chmod(0o755)

    result = workbench("doctor")

    assert result.status == 2
    assert f"    runs {sys.executable}\n" in result.out
    assert f"    runs {workbench.root / 'agent.sh'}\n" in result.out
    assert "  gone: the program 'no-such-program' does not exist or is not executable\n" in result.out


def test_programs_start_only_with_check_and_get_no_prompt(workbench: CommandLine) -> None:
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
    checked = workbench("doctor", "--check")

    assert quiet.out.count("    --check tests whether it starts\n") == 4
    assert checked.out.count("    starts\n") == 1
    assert (workbench.root / "started").exists() and not (workbench.root / "asked").exists()
    assert "ended with exit status 1 before it had answered: ModuleNotFoundError: No module named" in checked.out
    assert " wrote the line '1' after its last turn" in checked.out
    assert checked.out.count("no-such-program") == 2  # its line, and its problem


def test_doctor_counts_recorded_cases_and_lists_broken_files(workbench: CommandLine) -> None:
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

    result = workbench("doctor")

    assert result.status == 2
    assert "    holds 1 recorded case\n" in result.out
    assert "  gone: gone.evalset.json: cannot read it: there is no such file or folder\n" in result.out
    assert "  broken: broken.evalset.json:" in result.out
    assert "  rows.jsonl:2:" in result.out
    assert "  rows.jsonl: 2 more rows (`workbench dataset lint` lists all)\n" in result.out
    assert "there.evalset.json:" not in result.out.partition("problems:")[2]
    assert "good.jsonl:" not in result.out.partition("problems:")[2]


@pytest.mark.needs_fsspec
def test_remote_datasets_are_opened_only_with_check_and_a_silent_one_times_out(
    workbench: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evalset_commands, "_PATIENCE", 1.5)
    requested_paths: list[str] = []

    class Files(QuietHandler):
        def do_GET(self) -> None:
            requested_paths.append(self.path)
            self.send_response(200 if self.path.startswith("/rows.jsonl?") else 404)
            self.send_header("Content-Length", "100000000")  # the body never arrives, and no client reads it
            self.end_headers()

    with run_http_server(Files) as site, socket.create_server(("127.0.0.1", 0)) as mute:
        silent = f"http://127.0.0.1:{mute.getsockname()[1]}/rows.csv"
        addresses = [
            f"{site}/rows.jsonl?signature=hush",
            f"{site}/gone.csv",
            silent,
            "s3://bucket/rows.txt",
            "bq://table",
        ]
        configure(workbench, f"[targets.far]\nkind = 'recorded'\neval_sets = {addresses}")

        quiet = workbench("doctor")
        assert requested_paths == []
        result = workbench("doctor", "--check")

    assert quiet.out.count("    --check tests whether it can be reached\n") == 5
    assert result.status == 2
    assert f"  {site}/rows.jsonl: far, default criteria\n    reached\n" in result.out
    assert result.out.count("    not reached\n") == 4
    assert f"  {site}/gone.csv: cannot read it: there is no such file\n" in result.out
    assert f"  {silent}: cannot read it: no answer within 1.5 s\n" in result.out
    assert "  s3://bucket/rows.txt: is not a dataset: expected a name that ends in" in result.out
    assert "  bq://table: found 'bq://table', expected bq://PROJECT.DATASET.TABLE\n" in result.out
    assert sorted(requested_paths) == ["/gone.csv", "/rows.jsonl?signature=hush"]
    assert "hush" not in result.out


@pytest.mark.needs_a2a
def test_check_reads_the_agent_card(workbench: CommandLine) -> None:
    from tests.agents.worker.adapters.a2a.servers import serving as serving_a2a

    with serving_a2a() as agent, serving_a2a() as other:
        other.card = {"hello": 1}
        configure(
            workbench,
            f"[targets.lamps]\nkind = 'a2a'\ntarget = '{agent.url}'",
            f"[targets.none]\nkind = 'a2a'\ntarget = '{other.url}'",
        )

        result = workbench("doctor", "--check")

    assert "    reached: agent card of lamps\n" in result.out
    assert "  none: " in result.out and "is not an agent card: expected an object with a name" in result.out
    assert agent.executor.contexts == []


def test_doctor_looks_for_a_module_without_importing_it(workbench: CommandLine) -> None:
    configure(
        workbench,
        "[targets.gone]\nkind = 'function'\ntarget = 'nowhere.agent:answer'",
        "[targets.half]\nkind = 'function'\ntarget = 'desk.agent:answer'",
        "[targets.there]\nkind = 'function'\ntarget = 'desk.other:answer'",
        "[targets.installed]\nkind = 'function'\ntarget = 'json.tool:main'",
    )
    workbench.write("desk/other.py", "raise SystemExit('imported')")

    result = workbench("doctor")

    assert result.status == 2
    assert f"  gone: there is no module nowhere.agent in {workbench.root}\n" in result.out
    assert f"  half: there is no module desk.agent in {workbench.root}\n" in result.out
    assert result.out.count("there is no module") == 2


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        ("body = {question = '{{ promt }}'}", "found 'promt', expected one of prompt"),
        ("body = {question = '{{ prompt '}", "targets.web.http.body: line 1: "),
        ("response = '$..[['", "targets.web.http.response: found '$..[[', expected a JSONPath"),
    ],
)
def test_unreadable_templates_and_paths_are_errors_in_the_settings(
    workbench: CommandLine, table: str, problem: str
) -> None:
    target = "[targets.web]\nkind = 'http'\ntarget = 'http://127.0.0.1:9/'\neval_sets = ['home/*.evalset.json']\n"
    configure(workbench, f"{target}[targets.web.http]\n{table}\n")

    doctor = workbench("doctor")
    run = workbench("run", "web")

    assert doctor.status == run.status == 2
    assert problem in doctor.out
    assert problem in run.error
    assert "workbench.toml:5: " in run.error


def test_doctor_names_environment_variables_but_never_shows_values(
    workbench: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WEB_TOKEN", "the-value-itself")
    monkeypatch.delenv("WEB_KEY", raising=False)
    configure(
        workbench,
        "[targets.web]\nkind = 'http'\ntarget = 'http://127.0.0.1:9/?key=${WEB_KEY}'\n"
        "http.headers = { Authorization = 'Bearer ${WEB_TOKEN}' }",
    )

    result = workbench("doctor", "--check")

    assert result.status == 2
    assert "    reads WEB_KEY, WEB_TOKEN from the environment\n" in result.out
    assert "  web: the environment variable WEB_KEY is not set\n" in result.out
    assert "the-value-itself" not in result.out


def test_the_error_for_an_unreachable_url_shows_no_encoded_secret(
    workbench: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WEB_KEY", "sk very|secret^")
    with socket.socket() as unused_socket:
        unused_socket.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused_socket.getsockname()[1]}/"
        configure(workbench, f"[targets.web]\nkind = 'http'\ntarget = '{url}?key=${{WEB_KEY}}'")
        monkeypatch.setenv("http_proxy", "http://user:pass-word@127.0.0.1:9")
        monkeypatch.delenv("no_proxy", raising=False)

        result = workbench("doctor", "--check")

    assert "${WEB_KEY} cannot be reached: cannot connect to the proxy: " in result.out
    assert "secret" not in result.out
    assert "pass-word" not in result.out


def test_a_url_is_requested_only_with_check(workbench: CommandLine) -> None:
    with socket.socket() as unused_socket, run_server(lambda call: pytest.fail("no prompt is sent")) as server:
        unused_socket.bind(("127.0.0.1", 0))
        unused_url = f"http://127.0.0.1:{unused_socket.getsockname()[1]}/"
        configure(
            workbench,
            f"[targets.web]\nkind = 'http'\ntarget = '{server.url}/chat'",
            f"[targets.gone]\nkind = 'http'\ntarget = '{unused_url}'",
        )

        quiet, checked = workbench("doctor"), workbench("doctor", "--check")

    assert "cannot be reached" not in quiet.out
    assert quiet.out.count("    --check tests whether it can be reached\n") == 2
    assert checked.status == 2
    assert "    reached: the server answers (status 501)\n" in checked.out
    assert f"  gone: {unused_url} cannot be reached: " in checked.out


def test_a_deployed_agent_needs_no_local_framework(workbench: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "vertexai", None)  # as if it were not installed
    configure(
        workbench,
        "[targets.far]\nkind = 'agent_engine'\ntarget = 'projects/p/locations/us-central1/reasoningEngines/7'",
    )

    assert "is not installed" not in workbench("doctor").out


def test_doctor_names_a_missing_extra(workbench: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "langchain_core", None)  # as if it were not installed
    configure(
        workbench,
        "[targets.chain]\nkind = 'langchain'\ntarget = 'agent:chain'",
        f"[targets.other]\nkind = 'langchain'\ntarget = 'agent:chain'\npython = '{sys.executable}'",
    )

    result = workbench("doctor")

    assert result.status == 2
    assert f"  chain: the extra langchain is not installed: {install_command('langchain')}\n" in result.out
    assert "    needs langchain_core in its own interpreter, which is not checked\n" in result.out


@pytest.mark.parametrize(
    ("version", "message"),
    [
        ("1.17.0", "  old: google-adk 1.17.0 is too old, expected 1.18 or newer: pip install -U google-adk (in "),
        (None, "  old: google-adk is not installed for its interpreter "),
        ("1.18.0", "but google is missing: install it again there"),  # the import is tried
    ],
)
def test_an_old_or_missing_google_adk_is_a_problem(
    workbench: CommandLine, tmp_path: Path, version: str | None, message: str
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

    assert message in workbench("doctor").out


def test_an_error_in_a_file_of_sessions_is_a_problem(workbench: CommandLine) -> None:
    case = '{"eval_id": "one", "conversation": [{"user_content": {"parts": [{"text": "hi"}]}}]}'
    workbench.write("then.json", f'{{"eval_set_id": "a/b", "eval_cases": [{case}]}}')
    configure(workbench, "[targets.then]\nkind = 'recorded'\ntarget = 'then.json'")

    result = workbench("doctor")

    assert result.status == 2
    assert "  then: then.json:1:17: error: eval_set_id: ADK cannot save" in result.out


@pytest.mark.parametrize(
    ("files", "way_out"),
    [
        (("uv.lock",), '; run `uv sync` in {root}, and set python = "{root}/.venv/bin/python" for the target'),
        (("uv.lock", ".venv/bin/python"), '; the project has its own: set python = "{root}/.venv/bin/python" for the'),
        (("poetry.lock",), "; run `poetry install` in {root}, and set python to what `poetry env info --executable`"),
        ((".git/HEAD",), f"; `{sys.executable} -m pip install` adds packages to it"),
    ],
)
def test_packages_of_the_project_that_are_not_here_are_named_with_the_line_that_mends_it(
    workbench: CommandLine, files: tuple[str, ...], way_out: str
) -> None:
    workbench.write("home/agent.py", "import not_installed\ndef answer(prompt): return 'x'")
    workbench.write("pyproject.toml", '[project]\nname = "x"\ndependencies = ["pytest", "no-such-package>=1"]\n')
    for name in files:
        workbench.write(name, "")

    result = workbench("doctor")

    interpreter = f"The interpreter is {sys.executable}{way_out.format(root=workbench.root)}"
    assert result.status == 2
    assert f"home: ModuleNotFoundError: No module named 'not_installed'. {interpreter}" in result.out
    assert f"pyproject.toml needs no-such-package, not installed here. {interpreter}" in result.out
    assert interpreter in workbench("run", "home").out
