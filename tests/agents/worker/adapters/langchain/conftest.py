"""LangChain and LangGraph agents, with the real frameworks and chat models that answer by fixed rules."""

from __future__ import annotations

from typing import Any

import pytest

from workbench.model.target import AgentKind

MODELS = '''
    from langchain_core.language_models.chat_models import BaseChatModel
    from langchain_core.messages import AIMessage
    from langchain_core.outputs import ChatGeneration, ChatResult
    from langchain_core.tools import tool


    class Model(BaseChatModel):
        """Calls the tool `weather` for what a user says, then tells how many messages it saw and what the tool gave."""

        model: str = "made-up"

        @property
        def _llm_type(self):
            return "made-up"

        def bind_tools(self, tools, **options):
            return self.bind(tools=[tool.name for tool in tools], **options)

        def _generate(self, messages, stop=None, run_manager=None, **options):
            last = messages[-1]
            if last.type == "human":
                calls = [{"name": "weather", "args": {"city": last.content}, "id": "call-1"}]
                message = AIMessage(content="let me see", tool_calls=calls, usage_metadata=usage(10, 3))
            else:
                message = AIMessage(content=f"{len(messages)} messages, {last.content}", usage_metadata=usage(20, 5))
            return ChatResult(generations=[ChatGeneration(message=message)])


    class Echo(Model):
        """Says what it was told, and how many messages there were."""

        def _generate(self, messages, stop=None, run_manager=None, **options):
            message = AIMessage(content=f"{len(messages)}: {messages[-1].content}", usage_metadata=usage(1, 1))
            return ChatResult(generations=[ChatGeneration(message=message)])


    def usage(given, made):
        return {
            "input_tokens": given, "output_tokens": made, "total_tokens": given + made,
            "input_token_details": {"cache_read": 2}, "output_token_details": {"reasoning": 1},
        }


    class Busy(Exception):
        status_code = 429


    @tool
    def weather(city: str) -> dict:
        """Tell the weather of a city."""
        if city == "Atlantis":
            raise ValueError("no such city")
        if city == "Limbo":
            raise Busy("too many requests")
        return {"city": city, "degrees": 3}
'''


@pytest.fixture
def lang(bench: Any) -> Any:
    """A bench with models to import, whose `langchain` creates hosts of LangChain agents."""
    bench.write("models.py", MODELS)
    bench.langchain = lambda **options: bench.host(
        kind=AgentKind.LANGCHAIN, **{"mode": "fork", "isolation": "worker", **options}
    )
    return bench
