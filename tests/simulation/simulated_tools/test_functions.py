"""Tools of function agents: found by name wherever they are referenced, without changes to the code."""

from __future__ import annotations

from typing import Any

import pytest

from tests.simulation.simulated_tools.conftest import Project, get_failure, get_responses, get_sources, get_tool_spans

MADE_UP = [{"injected_response": "MADE UP"}]


def simulate(project: Project, *names: str, **options: Any) -> Any:
    project.environment(*({"tool_name": name, "injection_configs": MADE_UP} for name in names))
    project.cases(one="go")
    return project.run(simulate_tools=project.root / "environment.json", **options)


@pytest.mark.parametrize(
    "agent",
    [
        pytest.param("from lib import tool\ndef answer(prompt): return tool(1)", id="imported by name"),
        pytest.param("import lib\ndef answer(prompt): return lib.tool(1)", id="by its module"),
        pytest.param("from lib import tool as t\nTOOLS = [t]\ndef answer(prompt): return TOOLS[0](1)", id="in a list"),
        pytest.param(
            "import functools, lib\nt = functools.partial(lib.tool, 1)\ndef answer(prompt): return t()",
            id="in a partial",
        ),
        pytest.param("from lib import tool\ndef answer(prompt, session, call=tool): return call(1)", id="as a default"),
        pytest.param("def answer(prompt):\n    from lib import tool\n    return tool(x=1)", id="imported late"),
        pytest.param("from lib import closed\ndef answer(prompt): return closed(1)", id="over variables of its own"),
        pytest.param("from lib import wrapped\ndef answer(prompt): return wrapped(1)", id="decorated"),
        pytest.param("from lib import Tools\ndef answer(prompt): return Tools().method(1)", id="a method"),
        pytest.param("from lib import Tools\ndef answer(prompt): return Tools.of_class(1)", id="a method of a class"),
        pytest.param("from lib import Tools\ndef answer(prompt): return Tools.static(1)", id="a static method"),
        pytest.param("from lib import later\nasync def answer(prompt): return await later(1)", id="a coroutine"),
        pytest.param(
            "import threading\nfrom lib import tool\n"
            "def answer(prompt):\n"
            "    said = []\n"
            "    thread = threading.Thread(target=lambda: said.append(tool(1)))\n"
            "    thread.start(); thread.join()\n"
            "    return said[0]",
            id="in another thread",
        ),
        pytest.param("from lib import tool\nasync def answer(prompt): return tool(1)", id="blocking a coroutine"),
    ],
)
@pytest.mark.parametrize("isolation", ["case", "worker"])
def test_every_reference_to_a_function_leads_to_the_simulated_one(project: Project, agent: str, isolation: Any) -> None:
    project.write(
        "lib.py",
        """
        import functools, inspect

        def tool(x: int) -> str:
            "A tool."
            return "real"

        async def later(x):
            return "real"

        def make(word):
            def closed(x):
                return word
            return closed

        closed = make("real")

        def decorate(function):
            @functools.wraps(function)
            def wrapper(*args, **kwargs):
                return function(*args, **kwargs)
            return wrapper

        @decorate
        def wrapped(x):
            return "real"

        class Tools:
            def method(self, x):
                return "real"

            @classmethod
            def of_class(cls, x):
                return "real"

            @staticmethod
            def static(x):
                return "real"
        """,
    )
    project.write("agent.py", "import lib\n" + agent)
    names = [name for name in ("later", "closed", "wrapped", "method", "of_class", "static") if name in agent]

    run = simulate(project, *(names or ["tool"]), isolation=isolation)

    assert get_responses(run) == ["MADE UP"]
    (span,) = get_tool_spans(run)
    assert (span.name, span.request) == ((names or ["tool"])[0], {"x": 1})
    assert get_sources(run) == ["injected"]


def test_a_simulated_function_keeps_its_name_and_signature(project: Project) -> None:
    project.write("lib.py", 'def tool(x: int, *, fast=False) -> str:\n    "A tool."\n    return "real"\n')
    project.write(
        "agent.py",
        """
        import inspect
        from lib import tool

        def answer(prompt):
            tool(1)
            return f"{tool.__name__}{inspect.signature(tool)} {tool.__doc__}"
        """,
    )

    assert get_responses(simulate(project, "tool")) == ["tool(x: int, *, fast=False) -> str A tool."]


def test_a_call_with_wrong_arguments_raises_the_usual_error(project: Project) -> None:
    project.write("lib.py", "def tool(x):\n    return 'real'\n")
    project.write("agent.py", "from lib import tool\ndef answer(prompt): return tool(y=1)\n")

    kind, message = get_failure(simulate(project, "tool"))

    assert kind == "agent"
    assert message == "TypeError: tool() got an unexpected keyword argument 'y' (agent.py:2)"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("tol", "found 'tol', expected a function of the agent's own modules (name other functions as "
         "module:function); did you mean 'tool'?"),
        ("twice", "found 'twice', expected a unique name: a:twice and b:twice share it; name the function in `tools`"),
        ("lib:nothing", "lib has no attribute 'nothing'"),
        ("lib:number", "lib:number is an int (7), expected a function written in Python"),
        ("steps", "lib:steps is a generator, which cannot be simulated"),
    ],
)  # fmt: skip
def test_a_tool_that_cannot_be_simulated_is_reported_with_the_reason(project: Project, name: str, message: str) -> None:
    project.write("lib.py", "number = 7\ndef tool(x): return 'real'\ndef steps(): yield 1\n")
    project.write("a.py", "def twice(): return 1\n")
    project.write("b.py", "def twice(): return 2\n")
    project.write("agent.py", "import a, b\nfrom lib import tool\ndef answer(prompt): return tool(1)\n")

    kind, text = get_failure(simulate(project, name))

    assert kind == "setup"
    assert message in text


def test_settings_select_one_of_two_functions_with_the_same_name(project: Project) -> None:
    project.write("a.py", "def twice(): return 'real a'\n")
    project.write("b.py", "def twice(): return 'real b'\n")
    project.write("agent.py", "import a, b\ndef answer(prompt): return a.twice() + ' ' + b.twice()\n")
    project.settings('tools = ["b:twice"]')

    assert get_responses(simulate(project, "twice")) == ["real a MADE UP"]


def test_a_function_of_a_library_is_simulated_by_its_module_and_name(project: Project) -> None:
    project.write("agent.py", "import textwrap\ndef answer(prompt): return textwrap.dedent(prompt)\n")

    assert get_responses(simulate(project, "textwrap:dedent")) == ["MADE UP"]


@pytest.mark.needs_fork
def test_a_call_in_a_forked_process_never_reaches_the_real_tool(project: Project) -> None:
    project.write("lib.py", "def tool(): open('called.txt', 'w').write('really')\n")
    project.write(
        "agent.py",
        """
        import os
        from lib import tool

        def answer(prompt):
            read, write = os.pipe()
            if os.fork() == 0:
                try:
                    tool()
                except Exception as error:
                    os.write(write, str(error).encode())
                os._exit(0)
            os.close(write)
            return os.read(read, 1000).decode()
        """,
    )

    answer = get_responses(simulate(project, "tool"))[0]

    assert answer == ("tool was called in a subprocess of the agent, where it can be neither simulated nor recorded")
    assert project.real_calls == []


def test_calls_that_the_agent_does_not_report_are_in_the_trace(project: Project) -> None:
    project.write("lib.py", "def tool(x): return 'real'\n")
    project.write(
        "agent.py",
        """
        from lib import tool

        def answer(prompt):
            tool(1), tool(2)
            return {"response": "done", "predicted_trajectory": [{"tool_name": "tool", "tool_input": {"x": 2}}]}
        """,
    )

    spans = get_tool_spans(simulate(project, "tool"))

    assert [(span.request, span.response) for span in spans] == [({"x": 2}, "MADE UP"), ({"x": 1}, "MADE UP")]
    assert all(span.duration is not None for span in spans)
