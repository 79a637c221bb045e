"""Everything that can go wrong with an agent: one clear message each, the other cases unharmed."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from workbench.agents.worker.faults import summarize


async def test_an_agent_that_raises_in_its_second_turn_keeps_the_first(bench: Any, way: dict[str, Any]) -> None:
    bench.agent("""
        def deeper(prompt):
            raise KeyError(prompt)
        def answer(prompt, session):
            print("turn", len(session.history))
            return "fine" if not session.history else deeper(prompt)
    """)

    talk = await bench.talk_once("a", "b", **way)

    failure = talk.error.failure
    assert talk.responses == ["fine"]
    assert (talk.kind, talk.message, failure.turn) == ("agent", "KeyError: 'b' (agent.py:3)", 1)
    assert "agent.py" in failure.traceback and "in deeper" in failure.traceback
    assert "workbench" not in failure.traceback.replace(str(bench.folder), "")
    assert talk.error.stdout_tail == "turn 0\nturn 1\n"
    assert talk.spans[-1].error == "KeyError"


async def test_the_traceback_of_an_async_agent_shows_only_its_own_frames(bench: Any, way: dict[str, Any]) -> None:
    bench.agent("""
        import asyncio
        async def answer(prompt):
            await asyncio.sleep(0)
            raise ValueError("no")
    """)

    talk = await bench.talk_once("a", **way)

    assert (talk.kind, talk.message) == ("agent", "ValueError: no (agent.py:5)")
    assert talk.error.failure.traceback.count("File ") == 1


@pytest.mark.parametrize(
    ("code", "kind", "message"),
    [
        ("raise RuntimeError('at import')", "setup", "RuntimeError: at import"),
        ("import no_such_thing", "setup", "ModuleNotFoundError: No module named 'no_such_thing'"),
        ("def answer(prompt) return 1", "setup", "SyntaxError: "),
        ("import sys; sys.exit(4)", "setup", "the agent called sys.exit(4) while it was imported"),
        ("raise ConnectionResetError('gone')", "infrastructure", "ConnectionResetError: gone"),
        ("def anser(prompt): ...", "setup", "agent has no attribute 'answer'; did you mean 'anser'?"),
        ("answer = 'text'", "setup", "agent:answer is a str ('text'), expected a function"),
        ("def answer(): ...", "setup", "agent:answer takes (), expected f(prompt) or f(prompt, session)"),
        ("def answer(a, b, c): ...", "setup", "agent:answer takes (a, b, c), expected"),
        ("def answer(p, *, key): ...", "setup", "agent:answer needs key by keyword"),
    ],
)
async def test_an_agent_that_cannot_be_imported_is_reported_with_the_reason(
    bench: Any, way: dict[str, Any], code: str, kind: str, message: str
) -> None:
    bench.agent(code)

    talk = await bench.talk_once("hi", **way)

    assert talk.kind == kind
    assert talk.message.startswith(message)


@pytest.mark.parametrize(
    ("location", "message"),
    [
        ("agnet:answer", "there is no module 'agnet' in {folder}; did you mean 'agent'?"),
        ("package.agnet:answer", "there is no module 'package.agnet' in {folder}/package; did you mean 'agent'?"),
        ("pakage.agent:answer", "there is no module 'pakage' in {folder}; did you mean 'package'?"),
        ("agent", "'agent' does not name the function of the agent: expected package.module:name"),
    ],
)
@pytest.mark.needs_fork
async def test_a_missing_agent_is_reported_with_the_nearest_name(bench: Any, location: str, message: str) -> None:
    bench.agent("def answer(prompt): return prompt")
    bench.write("package/__init__.py", "")
    bench.write("package/agent.py", "def answer(prompt): return prompt")

    talk = await bench.talk_once("hi", location=location)

    assert (talk.kind, talk.message) == ("setup", message.format(folder=bench.folder))
    assert talk.error.failure.turn is None


@pytest.mark.parametrize(
    ("returned", "found"),
    [
        ("None", "the agent returned None, expected a str, or a dict with"),
        ("42", "the agent returned an int (42), expected a str"),
        ("['a']", "the agent returned a list, expected a str"),
        ("{}", "the agent returned an empty dict and no response"),
        ("{'output': 'x'}", "the agent returned a dict with the keys output and no response"),
        ("{'response': 3}", '"response" is an int (3), expected a str'),
        ("{'response': 'x', 'predicted_trajectroy': []}", "did you mean 'predicted_trajectory'?"),
        ("{'response': 'x', 'trajectory': []}", "did you mean 'predicted_trajectory'?"),
        ("{'response': 'x', 'predicted_trajectory': 'roll_die'}", '"predicted_trajectory" is a str that is not JSON'),
        ("{'response': 'x', 'predicted_trajectory': [{'tool': 'a'}]}", "predicted_trajectory[0] is a dict with the"),
        ("{'response': 'x', 'predicted_trajectory': [{'name': 'a', 'args': 3}]}", "predicted_trajectory[0].args is"),
        (
            "{'response': 'x', 'predicted_trajectory': ['ok', {'name': 'a', 'args': {'b': [{1}]}}]}",
            "predicted_trajectory[1].args.b[0] is a set, which JSON cannot hold",
        ),
        (
            "{'response': 'x', 'predicted_trajectory': [{'name': 'a', 'args': {'b': float('nan')}}]}",
            "predicted_trajectory[0].args.b is nan, which JSON cannot hold",
        ),
        ("{'response': 'x', 'state': 3}", '"state" is an int (3), expected a dict'),
        ("{'response': 'x', 'usage': {'prompt_tokens': 'many'}}", "usage.prompt is a str ('many'), expected a number"),
        ("{'response': 'x', 'tool_responses': [3]}", "tool_responses[0] is an int (3), expected"),
    ],
)
@pytest.mark.needs_fork
async def test_an_answer_of_the_wrong_shape_is_reported_with_the_expected_one(
    bench: Any, returned: str, found: str
) -> None:
    bench.agent(f"def answer(prompt): return {returned}")

    talk = await bench.talk_once("hi")

    assert talk.kind == "agent"
    assert found in talk.message


async def test_a_missing_interpreter_is_named(bench: Any, way: dict[str, Any]) -> None:
    bench.agent("def answer(prompt): return prompt")

    talk = await bench.talk_once("hi", python=Path("/no/such/python"), **way)

    assert talk.kind == "setup"
    assert talk.message == "the interpreter of target 'bench' does not exist: /no/such/python"


async def test_an_interpreter_that_may_not_be_executed_is_named(bench: Any, way: dict[str, Any]) -> None:
    python = bench.write("python", "#!/bin/sh\n")

    talk = await bench.talk_once("hi", python=python, **way)

    assert talk.message == f"the interpreter of target 'bench' may not be executed: {python}"


@pytest.mark.skipif(sys.platform == "win32", reason="needs a script as a program")
async def test_an_existing_interpreter_is_not_reported_as_missing(
    bench: Any, tmp_path: Path, way: dict[str, Any]
) -> None:
    bench.agent("def answer(prompt): return prompt")
    python = tmp_path / "python"
    python.write_text("#!/no/such/program\n")
    python.chmod(0o755)

    talk = await bench.talk_once("hi", python=python, **way)

    assert talk.message.startswith("the interpreter of target 'bench' needs a program that does not exist")
    assert talk.message.endswith(str(python))


async def test_a_program_that_is_not_python_is_reported(bench: Any, way: dict[str, Any]) -> None:
    talk = await bench.talk_once("hi", python=Path("/bin/true"), **way)

    assert talk.kind == "setup"
    assert "does not start a worker: /bin/true ended with exit status 0" in talk.message


async def test_a_path_that_is_not_a_folder_is_named(bench: Any, way: dict[str, Any]) -> None:
    talk = await bench.talk_once("hi", path=bench.folder / "missing", **way)

    assert talk.message == f"the path of target 'bench' is not a folder: {bench.folder / 'missing'}"


async def test_an_import_that_hangs_ends_with_the_start_timeout(bench: Any, way: dict[str, Any]) -> None:
    bench.agent("import time\ntime.sleep(1000)")

    talk = await bench.talk_once("hi", start_timeout=1.0, **way)

    assert talk.kind == "setup"
    assert talk.message == "target 'bench' was not ready after 1 s: the import of agent:answer takes too long"


@pytest.mark.parametrize(
    ("raised", "kind"),
    [
        ("ConnectionRefusedError()", "infrastructure"),
        ("TimeoutError()", "infrastructure"),
        ("Http(429)", "infrastructure"),
        ("Http(503)", "infrastructure"),
        ("Http(400)", "agent"),
        ("Wrapped(Http(500))", "infrastructure"),
        ("Grpc()", "infrastructure"),
        ("Payload()", "infrastructure"),
        ("http.client.IncompleteRead(b'')", "infrastructure"),
        ("ValueError('429')", "agent"),
        ("FileNotFoundError()", "agent"),
    ],
)
@pytest.mark.needs_fork
async def test_only_infrastructure_failures_have_that_kind(bench: Any, raised: str, kind: str) -> None:
    bench.agent(f"""
        import http.client
        Payload = type("ClientPayloadError", (Exception,), {{"__module__": "aiohttp.client_exceptions"}})
        class Http(Exception):
            def __init__(self, status):
                self.response = type("Response", (), {{"status_code": status}})()
        class Grpc(Exception):
            def code(self):
                return type("Code", (), {{"name": "RESOURCE_EXHAUSTED"}})()
        class Wrapped(Exception):
            def __init__(self, cause):
                self.__cause__ = cause
        def answer(prompt):
            raise {raised}
    """)

    assert (await bench.talk_once("hi")).kind == kind


@pytest.mark.skipif(sys.platform == "win32", reason="needs a shell script as a program")
async def test_processes_started_by_an_interpreter_end_with_it(
    bench: Any, way: dict[str, Any], wait_until: Any, is_alive: Any
) -> None:
    bench.agent("def answer(prompt): return prompt")
    pid_file = bench.folder / "started"
    python = bench.write("python", f"#!/bin/sh\nsleep 1000 &\necho $! > {pid_file}\nwait\n")
    python.chmod(0o755)

    talk = await bench.talk_once("hi", python=python, start_timeout=1.0, **way)

    assert talk.kind == "setup"
    assert await wait_until(lambda: not is_alive(int(pid_file.read_text())))


@pytest.mark.skipif(sys.platform == "win32", reason="needs a shell script as a program")
async def test_processes_of_an_interpreter_end_if_it_is_no_longer_needed(
    bench: Any, way: dict[str, Any], wait_until: Any, is_alive: Any
) -> None:
    pid_file = bench.folder / "started"
    python = bench.write(
        "python", f"#!/bin/sh\nsleep 1000 &\necho $! > {pid_file}.new\nmv {pid_file}.new {pid_file}\nwait\n"
    )
    python.chmod(0o755)
    host = bench.host(python=python, **way)

    host.prepare(cases=1)
    await wait_until(pid_file.exists)
    await host.close()

    assert await wait_until(lambda: not is_alive(int(pid_file.read_text())))


async def test_an_error_at_import_names_the_line_in_the_users_own_code(bench: Any, way: dict[str, Any]) -> None:
    bench.write("settings.py", "import json\njson.loads('{')\n")
    bench.agent("import settings\ndef answer(prompt): return prompt")

    talk = await bench.talk_once("a", **way)

    assert talk.kind == "setup"
    assert talk.message.startswith("JSONDecodeError: ")
    assert talk.message.endswith(" (settings.py:2)")


@pytest.fixture
def without_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GOOGLE_API_KEY", "GEMINI_API_KEY", "GOOGLE_GENAI_USE_VERTEXAI", "OPENAI_API_KEY", "OPENAI_ADMIN_KEY"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("code", "message"),
    [
        pytest.param(
            "from google import genai; genai.Client()",
            "google.genai finds no key: set GOOGLE_API_KEY or GEMINI_API_KEY in the environment or in the agent's .env",
            marks=pytest.mark.needs_adk,
        ),
        pytest.param(
            "import litellm; litellm.completion('openai/gpt', [])",
            "litellm finds no key: set OPENAI_API_KEY in",
            marks=pytest.mark.needs_litellm,
        ),
        pytest.param(
            "import openai; openai.OpenAI()",
            "openai finds no key: set OPENAI_API_KEY in",
            marks=pytest.mark.needs_litellm,
        ),
    ],
)
@pytest.mark.usefixtures("without_keys")
async def test_a_missing_model_key_is_a_setup_failure(bench: Any, code: str, message: str) -> None:
    bench.agent(f"""
        def answer(prompt):
            {code}
    """)

    talk = await bench.talk_once("hi")

    assert talk.kind == "setup"
    assert talk.message.startswith(message)
    assert "agent.py:3" in talk.message


@pytest.mark.parametrize(
    ("raised", "kind", "message"),
    [
        ("anthropic.no_key()", "setup", "anthropic finds no key: set ANTHROPIC_API_KEY in"),
        ("anthropic.wrapped()", "setup", "anthropic finds no key: set ANTHROPIC_API_KEY in"),
        ("anthropic.bad_key()", "agent", "ValueError: bad key"),
        ("fail('No API key was provided')", "agent", "ValueError: No API key was provided"),
        ("fail('bad key')", "agent", "ValueError: bad key"),
    ],
)
@pytest.mark.needs_fork
async def test_only_errors_of_provider_libraries_count_as_a_missing_key(
    bench: Any, raised: str, kind: str, message: str
) -> None:
    bench.write(
        "anthropic.py",
        """
        def no_key():
            raise TypeError("Could not resolve authentication method. Expected either api_key or auth_token to be set.")
        def wrapped():
            try:
                no_key()
            except TypeError as error:
                raise RuntimeError("no answer") from error
        def bad_key():
            raise ValueError("bad key")
        """,
    )
    bench.agent(f"""
        import anthropic
        def fail(text):
            raise ValueError(text)
        def answer(prompt):
            {raised}
    """)

    talk = await bench.talk_once("hi")

    assert talk.kind == kind
    assert talk.message.startswith(message)


def test_addresses_of_objects_are_cut_from_messages() -> None:
    assert summarize(ValueError(f"no {object()} here")) == "ValueError: no <object object> here"
