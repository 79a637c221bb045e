"""Agents on a real Ray cluster of several nodes on this machine, which all tests of this module share."""

from __future__ import annotations

import json
import os
import platform
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.engine.chat_session.listener import Listener
from tests.engine.project import Project, get_statuses, turn
from tests.llm.servers import find_free_port
from tests.processes import is_running
from tests.serving import run_model_server
from workbench import __version__
from workbench.agents import ray_hosts, ray_project
from workbench.engine.plan import RunOptions, Selection
from workbench.engine.run import Run
from workbench.engine.verdict_index import Asked
from workbench.engine.workspace import Workspace
from workbench.model.identity import Dependency
from workbench.model.installation import install_command
from workbench.model.run_events import CaseFinished, CasePlaced, CaseStarted, TurnAnswered
from workbench.report.report_formats import case_record
from workbench.report.run_report import ReportedCase
from workbench.watch.selector import select_affected

REPOSITORY = Path(ray_hosts.__file__).parents[2]
SET = [Selection(eval_set="set.evalset.json")]
SECRET = "a-password-that-no-log-may-have"
KILLS = int(os.environ.get("WORKBENCH_PROOF_KILLS", "0"))
SETTINGS = """
[targets.sample]
kind = "function"
target = "agent:answer"
eval_sets = ["*.evalset.json"]
tools = ["agent:add"]

[targets.keyed]
kind = "function"
target = "agent:answer"
env_file = "keyed/.env"
eval_sets = ["keyed/*.evalset.json"]

[run]
executor = "ray"
concurrency = 6

[run.ray]
runtime_env = {env_vars = ["SAMPLE_PASSWORD"]}
"""
NODE = "import os, time\ndef answer(prompt):\n    time.sleep(0.3)\n    return os.environ['RAY_RAYLET_PID']\n"
SLOW = "import time\ndef answer(prompt):\n    time.sleep(0.2 if prompt != 'slow' else 100)\n    return prompt\n"

MAIN = "from workbench.cli.main import main; main()"

pytestmark = [pytest.mark.needs_ray, pytest.mark.needs_fork]


def find_processes(*texts: str) -> dict[int, str]:
    """Return the command lines of running processes that contain one of the texts, by process id."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            line = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
            inherited = (folder / "environ").read_bytes().decode("utf-8", "replace")
            if any(text in line or text in inherited for text in texts) and is_running(int(folder.name)):
                found[int(folder.name)] = line
    return found


def can_connect(port: int) -> bool:
    """Return True if a server of this machine listens on the port."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@contextmanager
def kill_afterwards(process: subprocess.Popen[str]) -> Iterator[None]:
    try:
        yield
    finally:
        process.kill()


def wait_until(condition: Callable[[], Any], *, seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.1)


@dataclass
class RayNodes:
    """A cluster with a head that runs no agents, and workers that tests may kill."""

    cluster: Any
    session: Path
    workers: list[Any]

    def add_worker(self) -> None:
        with pytest.MonkeyPatch.context() as patch:  # a value that only this machine has
            patch.setenv("SAMPLE_PASSWORD", "another one")
            self.workers.append(self.cluster.add_node(num_cpus=2, object_store_memory=80_000_000))

    def remove_worker(self) -> None:
        self.cluster.remove_node(self.workers.pop(), allow_graceful=False)

    def find_actors(self) -> list[int]:
        raylets = [f"RAY_RAYLET_PID={worker.all_processes['raylet'][0].process.pid}\0" for worker in self.workers]
        return [pid for pid, line in find_processes(*raylets).items() if line.startswith("ray::AgentNode")]


@pytest.fixture(scope="module")
def nodes() -> Iterator[RayNodes]:
    pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    # Hosts that are killed leave files. The paths of Ray's sockets may have 107 bytes: pytest's folders are too deep.
    with (
        tempfile.TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True) as folder,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setenv("PYTHONPATH", str(REPOSITORY))
        patch.setenv("RAY_worker_niceness", "0")  # by default Ray gives way to all other processes
        patch.setenv("TMPDIR", folder)
        head = {"num_cpus": 0, "include_dashboard": False, "object_store_memory": 80_000_000}
        cluster = Cluster(initialize_head=True, head_node_args=head)
        nodes = RayNodes(cluster, Path(cluster.head_node.get_session_dir_path()), [])
        try:
            patch.setenv("RAY_ADDRESS", cluster.address)
            yield nodes
        finally:
            cluster.shutdown()
            for pid in find_processes(nodes.session.name):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """A project for all tests: a connection takes seconds."""
    project = Project(tmp_path_factory.mktemp("project"))
    (project.root / "workbench.toml").write_text(SETTINGS)
    project.add_criteria(response_match_score=0.0)
    add_cases(project, "a")
    (project.root / ".gitignore").write_text(".env\n")
    (project.root / "keyed").mkdir()
    (project.root / "keyed" / ".env").write_text("KEYED_PASSWORD=word-of-the-file\n")
    project.add_set({"k": [turn("hello")]}, name="keyed/set")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SAMPLE_PASSWORD", SECRET)
        yield project
    project.close()


@pytest.fixture(scope="module")
def workspace(nodes: RayNodes, project: Project) -> Iterator[Workspace]:
    """A workspace that was connected before the nodes joined: it must lose none of its own."""
    import ray

    workspace = project.open_workspace()
    workspace.start_interpreters(SET, RunOptions())
    wait_until(ray.is_initialized)
    nodes.add_worker()
    nodes.add_worker()
    yield workspace
    workspace.close()


def add_cases(project: Project, *prompts: str) -> None:
    project.add_set({f"c{index}": [turn(prompt)] for index, prompt in enumerate(prompts)})


def get_responses(run: Run) -> list[str]:
    results = sorted(run.results(), key=lambda result: result.case.eval_id)
    return [result.execution.turns[0].invocation.final_response.text() for result in results]


def list_rows(workspace: Workspace) -> set[Dependency]:
    """List what the newest verdict on the first case depends on."""
    verdicts = workspace.verdicts
    newest = verdicts.find(Asked("sample", workspace.plan(SET, RunOptions()).cases[0].execution_hash, 0))[0]
    return {verdicts.row(row) for row in verdicts.list_rows(newest.dependencies or 0)}


def find_reason(run: Run) -> str:
    """Return the one reason why all cases ended in ERROR."""
    assert set(get_statuses(run).values()) == {"ERROR"}
    return {result.failure.message for result in run.results()}.pop()


def run_command(*arguments: str) -> str:
    """Run workbench in a process of its own, with its own connection. Return its output."""
    command = [sys.executable, "-m", "workbench.cli.main", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


def test_no_cluster_is_one_clear_message(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")

    reason = find_reason(project.run())

    assert reason == (
        "no Ray cluster at 'auto': Connection refused. Start one (`ray start --head`), or set address in [run.ray]"
    )


def test_a_missing_extra_is_one_clear_message(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)

    assert find_reason(project.run()) == f"the executor ray needs an extra: {install_command('ray')}"


def test_another_version_of_ray_is_one_clear_message(
    project: Project, nodes: RayNodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ray.__version__", "1.0")

    reason = find_reason(project.run())

    assert reason.startswith("the Ray cluster at 'auto' needs the same versions: Version mismatch:")
    assert "Ray: 1.0" in reason


def test_a_variable_that_is_not_set_here_is_one_clear_message(
    project: Project, nodes: RayNodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SAMPLE_PASSWORD")

    reason = find_reason(project.run())

    assert reason == "not set here: SAMPLE_PASSWORD, named in [run.ray] runtime_env.env_vars"


def test_a_large_folder_is_named_before_anything_is_sent(
    project: Project, nodes: RayNodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray_project, "_MOST_BYTES", 1_000_000)
    large = project.root / "models" / "weights" / "model.bin"
    large.parent.mkdir(parents=True)
    large.write_bytes(bytes(2_000_000))

    reason = find_reason(project.run())
    large.unlink()

    assert "2 MB, expected at most 1 MB; models/weights/ has 2 MB of it" in reason
    assert 'runtime_env.excludes = ["models/weights/"]' in reason


def test_cases_run_on_every_node(project: Project, workspace: Workspace, nodes: RayNodes) -> None:
    project.add_agent(NODE)
    add_cases(project, *"abcdefghijkl")

    raylets = {str(worker.all_processes["raylet"][0].process.pid) for worker in nodes.workers}
    wait_until(lambda: set(get_responses(project.run(workspace=workspace))) == raylets)  # the first may be alone
    run = project.run(workspace=workspace)
    placed = [event for batch in run.iter_batches() for event in batch if isinstance(event, CasePlaced)]
    assert {event.node for event in placed} == {socket.gethostname()}
    assert {event.case for event in placed} == {result.case for result in run.results()}
    assert {case_record(ReportedCase(result, None))["node"] for result in run.results()} == {socket.gethostname()}


def test_what_a_case_depends_on_is_the_same_as_in_a_run_here(project: Project, workspace: Workspace) -> None:
    project.add_agent(
        "import os\ndef answer(prompt): return open('data.txt').read() + str('SAMPLE_PASSWORD' in os.environ)\n"
    )
    (project.root / "data.txt").write_text("read ")
    add_cases(project, "a")

    there = project.run(workspace=workspace)
    rows = list_rows(workspace)
    here = project.run(workspace=workspace, executor="local")

    assert get_responses(there) == get_responses(here) == ["read True"]
    assert {row.key for row in rows} >= {str(project.root / "data.txt"), "SAMPLE_PASSWORD"}
    assert rows == list_rows(workspace)


def test_changed_code_reaches_the_nodes_and_only_affected_cases_run(project: Project, workspace: Workspace) -> None:
    project.add_agent("def answer(prompt): return open(prompt).read()\n")
    for name in ("one.txt", "two.txt"):
        (project.root / name).write_text(f"first {name}")
    add_cases(project, "one.txt", "two.txt")
    assert get_responses(project.run(workspace=workspace)) == ["first one.txt", "first two.txt"]

    (project.root / "two.txt").write_text("second")
    plan = select_affected(workspace, workspace.plan(SET, RunOptions()))
    run = workspace.start(plan)
    list(run.iter_events())

    assert len(plan.stored) == 1
    assert get_responses(run) == ["first one.txt", "second"]


def test_named_variables_reach_agents_and_no_log(project: Project, workspace: Workspace, nodes: RayNodes) -> None:
    project.add_agent("import os\ndef answer(prompt): return os.environ['SAMPLE_PASSWORD'][2:10]\n")
    add_cases(project, "a")

    assert get_responses(project.run(workspace=workspace)) == [SECRET[2:10]]

    logs = [path.read_bytes() for path in (nodes.session / "logs").rglob("*") if path.is_file()]
    assert len(logs) > 10
    assert not any(SECRET.encode() in log for log in logs)


def test_a_variable_of_an_env_file_that_stays_here_is_one_clear_message(project: Project, workspace: Workspace) -> None:
    reason = find_reason(project.run(Selection(eval_set="keyed/set.evalset.json"), workspace=workspace))

    assert reason == (
        f"node {socket.gethostname()} lacks the variables KEYED_PASSWORD, which a .env file sets here: name them in "
        "[run.ray] runtime_env.env_vars, or set them there"
    )


def test_a_timeout_ends_a_case_on_its_node(project: Project, workspace: Workspace) -> None:
    project.add_agent(SLOW)
    add_cases(project, "a", "slow")

    run = project.run(workspace=workspace, timeout_seconds=1.0)

    assert get_statuses(run) == {"c0": "PASSED", "c1": "ERROR"}
    assert [result.failure.message for result in run.results() if result.failure] == ["took longer than 1 s"]


def test_one_case_can_be_stopped(project: Project, workspace: Workspace) -> None:
    project.add_agent(SLOW)
    add_cases(project, "slow", "a")
    run = workspace.start(workspace.plan(SET, RunOptions()))

    for event in run.iter_events():
        if isinstance(event, CaseFinished) and event.case.eval_id == "c1":
            run.cancel(run.plan.jobs[0][0])

    assert get_statuses(run) == {"c0": "CANCELLED", "c1": "PASSED"}


def test_models_are_recorded_and_replayed_on_the_nodes(project: Project, workspace: Workspace) -> None:
    recording = project.root / "calls.jsonl"
    with run_model_server(secret="s") as server:
        project.add_agent(
            "import httpx\n"
            "def answer(prompt):\n"
            "    body = {'messages': [{'role': 'user', 'content': prompt}]}\n"
            f"    reply = httpx.post('{server.url}/v1/chat/completions', json=body)\n"
            "    return reply.json()['choices'][0]['message']['content']\n"
        )
        add_cases(project, "a", "b", "c")

        recorded = project.run(workspace=workspace, record=recording)
        replayed = project.run(workspace=workspace, replay=recording)

    assert server.count == 3
    assert get_responses(recorded) == get_responses(replayed)
    assert {result.execution.model_calls.replayed for result in replayed.results()} == {1}
    assert all(result.execution.spans for result in replayed.results())


def test_tools_are_recorded_and_replayed_on_the_nodes(project: Project, workspace: Workspace) -> None:
    code = "def add(to): return to + {}\ndef answer(prompt): return str(add(int(prompt)))\n"
    project.add_agent(code.format(1))
    add_cases(project, "1", "5")
    recording = project.root / "tools.jsonl"
    assert get_responses(project.run(workspace=workspace, record_tools=recording)) == ["2", "6"]

    project.add_agent(code.format(100))
    replayed = project.run(workspace=workspace, replay_tools=recording)

    assert get_responses(replayed) == ["2", "6"]


def test_a_metric_of_the_project_runs_on_a_node(project: Project, workspace: Workspace) -> None:
    project.add_agent("def answer(prompt): return prompt\n")
    (project.root / "metric.py").write_text(
        "import os\ndef score(instance): return {'mine': 'RAY_JOB_ID' in os.environ}\n"
    )
    add_cases(project, "a")
    config = project.root / "custom.json"
    metrics = {"mine": {"code_config": {"name": "metric.score"}}}
    config.write_text(json.dumps({"criteria": {"mine": 1.0}, "custom_metrics": metrics}))

    run = project.run(workspace=workspace, config=config)

    assert [each.score for result in run.results() for each in result.metrics if each.name == "mine"] == [1.0]


def test_a_chat_runs_on_a_node_with_the_current_code(project: Project, workspace: Workspace) -> None:
    project.add_agent("import os\ndef answer(prompt): return f'{prompt} {\"RAY_JOB_ID\" in os.environ}'\n")

    listener = Listener(workspace.chat("sample"))
    listener.say("hello")

    (answered,) = [event for event in listener.events if isinstance(event, TurnAnswered)]
    assert answered.result.invocation.final_response.text() == "hello True"


def test_doctor_names_the_nodes_and_what_they_lack(project: Project, workspace: Workspace) -> None:
    project.add_agent("import no_such_package\n")

    output = run_command("doctor", "--check", str(project.root))

    node = f"node {socket.gethostname()}"
    assert output.count(f"  {node}: Python {platform.python_version()}, Ray {version('ray')}, workbench ") == 3
    assert output.count(f"workbench {__version__}; no agents run here: it lacks CPU: 0.01\n") == 1  # the head
    assert f"  sample: {node}: ModuleNotFoundError: No module named 'no_such_package'. The interpreter is " in output
    assert f"  keyed: {node} lacks the variables KEYED_PASSWORD" in output


@dataclass
class ClientServer:
    """Ray's client server without its proxy, which may hang when it forks."""

    process: subprocess.Popen[bytes]
    address: str


@pytest.fixture
def client_server(nodes: RayNodes, workspace: Workspace) -> Iterator[ClientServer]:
    port = find_free_port()
    command = [sys.executable, "-m", "ray.util.client.server", "--mode", "legacy", "--host", "127.0.0.1"]
    command += ["--port", str(port), "--address", nodes.cluster.address]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as server:
        wait_until(lambda: can_connect(port))
        yield ClientServer(server, f"ray://127.0.0.1:{port}")
        server.kill()


@pytest.mark.parametrize(
    ("ending", "expected"),
    [
        ("end", "8 cases: 8 passed"),
        ("interrupt", "1 case: 1 cancelled"),
        ("loss", "the connection to the Ray cluster was lost: "),
    ],
)
def test_the_client_server_of_a_cluster_is_enough(
    client_server: ClientServer, tmp_path: Path, ending: str, expected: str
) -> None:
    project = Project(tmp_path)
    began = tmp_path / "began"
    project.add_agent(f"open({str(began)!r}, 'w').close()\n{SLOW}")
    project.add_criteria(response_match_score=0.0)
    add_cases(project, *("abcdefgh" if ending == "end" else ["slow"]))
    with (tmp_path / "workbench.toml").open("a") as settings:
        settings.write(f'[run]\nexecutor = "ray"\n[run.ray]\naddress = "{client_server.address}"\n')

    # With a second instead of a minute for another node, and for the connection to come back.
    program = f"from workbench.agents import ray_hosts; ray_hosts._NODE_SECONDS = 1; {MAIN}"
    environment = {**os.environ, "RAY_CLIENT_RECONNECT_GRACE_PERIOD": "1"}
    command = [sys.executable, "-c", program, "run", "set.evalset.json", "--plain"]
    pipe = subprocess.PIPE
    with (
        subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=pipe, stderr=pipe, text=True) as ran,
        kill_afterwards(ran),
    ):
        if ending != "end":
            wait_until(began.exists)
            ran.send_signal(signal.SIGINT) if ending == "interrupt" else client_server.process.kill()
        output, errors = ran.communicate(timeout=150)

    assert expected in output
    assert [line for line in errors.splitlines() if not line.startswith("workbench: ")] == []


def test_a_large_project_travels_as_a_package(tmp_path: Path, workspace: Workspace) -> None:
    project = Project(tmp_path)
    project.add_agent(
        "import os, subprocess\n"
        "def answer(prompt):\n"
        "    said = subprocess.run(['./tool.sh'], capture_output=True, text=True).stdout\n"
        "    size, names = os.path.getsize('large.bin'), os.listdir('empty')\n"
        "    return f'{said.strip()} {size} {names} {\"RAY_JOB_ID\" in os.environ}'\n"
    )
    (tmp_path / "large.bin").write_bytes(bytes(5_000_000))
    (tmp_path / "tool.sh").write_text("#!/bin/sh\necho ran\n")
    (tmp_path / "tool.sh").chmod(0o755)
    (tmp_path / "empty").mkdir()
    project.add_set({"a": [turn("hello", response="ran 5000000 [] True")]})
    project.add_criteria(response_match_score=1.0)

    output = run_command("run", "--executor", "ray", "--plain", str(tmp_path))

    assert "1 case: 1 passed" in output


def run_and_kill(project: Project, workspace: Workspace, kill: Callable[[], None]) -> Run:
    """Run 60 cases of 0.2 s, and kill something when 12 have finished."""
    project.add_agent(SLOW)
    add_cases(project, *(f"prompt {index}" for index in range(60)))
    run = workspace.start(workspace.plan(SET, RunOptions()))
    finished = 0
    for event in run.iter_events():
        if isinstance(event, CaseFinished):
            finished += 1
            if finished == 12:
                kill()
    return run


def assert_nothing_is_lost(workspace: Workspace, run: Run, *, cases: int = 60) -> None:
    """Assert that each case passed, was reported once, and is stored once."""
    assert not {result.failure.message for result in run.results() if result.failure is not None}
    assert set(get_statuses(run).values()) == {"PASSED"}
    reported = [event.case.eval_id for event in run.iter_events() if isinstance(event, CaseFinished)]
    with workspace.history() as history:
        stored = [result.case.eval_id for result in history.results(run.run_id)]
    assert sorted(reported) == sorted(stored) == sorted(f"c{index}" for index in range(cases))


def test_a_killed_host_costs_nothing(project: Project, workspace: Workspace, nodes: RayNodes) -> None:
    run = run_and_kill(project, workspace, lambda: os.kill(nodes.find_actors()[0], signal.SIGKILL))

    assert_nothing_is_lost(workspace, run)
    assert any(isinstance(event, CaseStarted) and event.attempt > 1 for event in run.iter_events())
    wait_until(lambda: len(nodes.find_actors()) == 2)  # the other one is replaced


def test_a_killed_node_costs_nothing(
    project: Project, workspace: Workspace, nodes: RayNodes, capfd: pytest.CaptureFixture[str]
) -> None:
    raylet = nodes.workers[-1].all_processes["raylet"][0].process

    run = run_and_kill(project, workspace, nodes.remove_worker)

    assert_nothing_is_lost(workspace, run)
    assert "raylet" not in "".join(capfd.readouterr())
    wait_until(lambda: not find_processes(f"RAY_RAYLET_PID={raylet.pid}"))  # its host ends, and its agents


def test_a_cluster_without_nodes_is_one_clear_message(
    project: Project, workspace: Workspace, nodes: RayNodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray_hosts, "_NODE_SECONDS", 1.0)
    raylets = [f"RAY_RAYLET_PID={worker.all_processes['raylet'][0].process.pid}\0" for worker in nodes.workers]
    while nodes.workers:
        nodes.remove_worker()
    wait_until(lambda: not find_processes(*raylets))  # an agent host ends a moment after its node

    reason = find_reason(project.run(workspace=workspace, retries=0))

    assert reason.startswith("no node of the Ray cluster could host target 'sample' within 1 s: it needs CPU: 0.01, ")


@pytest.mark.skipif(not KILLS, reason="a proof: WORKBENCH_PROOF_KILLS is how many nodes it kills")
def test_no_killed_node_costs_anything(project: Project, workspace: Workspace, nodes: RayNodes) -> None:
    project.add_agent("import time\ndef answer(prompt):\n    time.sleep(0.1)\n    return prompt\n")
    add_cases(project, *(f"prompt {index}" for index in range(1_000)))
    moments = Random(1)

    for _ in range(KILLS):
        while len(nodes.workers) < 2:
            nodes.add_worker()
        run = workspace.start(workspace.plan(SET, RunOptions(concurrency=20)))
        moment, finished = moments.randrange(1, 800), 0
        for event in run.iter_events():
            finished += isinstance(event, CaseFinished)
            if finished == moment and isinstance(event, CaseFinished):
                nodes.remove_worker()
        assert_nothing_is_lost(workspace, run, cases=1_000)
