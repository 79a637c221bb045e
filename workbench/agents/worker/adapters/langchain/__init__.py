"""The adapter for LangChain and LangGraph: runnables, AgentExecutors, compiled graphs and agents.

langchain_core is imported inside functions and by modules that `open` imports. langgraph and langchain_classic are
not imported to recognise an object: its class names identify it. The code that made the object has imported them.
"""

from __future__ import annotations

import inspect
from typing import Any

from ...loading import find_object
from ...wire import describe
from .. import base
from .langchain_messages import choose_form

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .langchain_session import LangchainSession

_EXPECTED = (
    "a Runnable (a chain, an AgentExecutor, a compiled graph, an agent of create_agent) or a function without "
    "parameters that returns one"
)


class Adapter(base.Adapter):
    """One LangChain object, or a factory of them, in one process. `location` is `module:name`."""

    preload = (
        "langchain_core.callbacks.base",
        "langchain_core.language_models.chat_models",
        "langchain_core.messages",
        "langchain_core.runnables",
        "langchain_core.tools",
    )

    def load(self) -> None:
        """Import the object. A factory is called later, for each session."""
        try:
            from langchain_core.runnables import Runnable
        except ModuleNotFoundError as error:
            if error.name not in ("langchain_core", "langchain_core.runnables"):
                raise
            raise base.make_not_installed_error("langchain-core", extra="langchain") from None
        location = self.target["location"]
        found = find_object(location, self.import_roots(), wanted="the agent")
        self._factory = None
        if isinstance(found, Runnable):
            self._runnable = found
        elif type(found).__name__ == "StateGraph":
            raise base.LoadError(f"{location} is a graph that was not compiled, expected the result of its .compile()")
        elif callable(found):
            self._factory = found
        else:
            raise base.LoadError(f"{location} is {describe(found)}, expected {_EXPECTED}")

    async def open(
        self, session: dict[str, Any], emit_span: base.EmitSpan, tools: base.InterceptedTools | None = None
    ) -> LangchainSession:
        from .langchain_session import LangchainSession

        runnable = self._runnable if self._factory is None else await self._call_factory(self._factory)
        name = self.target["location"].partition(":")[2]
        calls = None
        if tools is not None:
            from .langchain_tracing import LangchainToolCalls

            calls = LangchainToolCalls(tools, runnable, self.import_roots())
        return LangchainSession(
            name=name,
            runnable=runnable,
            form=choose_form(runnable, session),
            request=session,
            emit=emit_span,
            calls=calls,
            roots=self.import_roots(),
        )

    async def _call_factory(self, factory: Any) -> Any:
        """Call a factory, plain or async: without arguments, or with a configuration as in LangGraph."""
        from langchain_core.runnables import Runnable

        location = self.target["location"]
        possible: tuple[tuple[Any, ...], ...] = ((), ({"configurable": {}},))
        arguments = next((given for given in possible if _accepts(factory, given)), None)
        if arguments is None:
            raise base.LoadError(f"{location} is a function that takes several arguments, expected {_EXPECTED}")
        made = factory(*arguments)
        if inspect.isawaitable(made):
            made = await made
        if not isinstance(made, Runnable):
            raise base.LoadError(f"{location}() gave {describe(made)}, expected {_EXPECTED}")
        return made


def _accepts(function: Any, arguments: tuple[Any, ...]) -> bool:
    try:
        inspect.signature(function).bind(*arguments)
    except TypeError:
        return False
    except ValueError:  # not written in Python: no signature
        return not arguments
    return True
