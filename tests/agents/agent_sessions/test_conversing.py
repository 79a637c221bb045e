"""Features of sessions for manual conversations: announced steps, and the state between turns."""

from __future__ import annotations

from typing import Any

import pytest


async def test_spans_are_announced_on_request(bench: Any, way: dict[str, Any]) -> None:
    bench.agent("def answer(prompt): return prompt")

    talk = await bench.talk(bench.host(**way), "hi", announce_spans=True)

    announced_span, final_span = talk.spans
    assert (announced_span.id, announced_span.is_running, announced_span.request) == (final_span.id, True, "hi")
    assert final_span.duration is not None


async def test_the_state_is_available_between_turns(bench: Any, way: dict[str, Any]) -> None:
    bench.agent(
        """
        def answer(prompt, session):
            session.state[prompt] = len(session.history)
            return prompt
        """
    )
    session = await bench.open(bench.host(**way), state={"a": 1})

    assert await session.state() is None
    states = []
    for turn, prompt in enumerate(["x", "y"]):
        await session.turn(content(prompt), turn=turn)
        states.append(await session.state())
    await session.finish()

    assert states == [{"a": 1, "x": 0}, {"a": 1, "x": 0, "y": 1}]


@pytest.mark.parametrize("mode", ["fork", "once"])
async def test_a_process_that_dies_between_turns_fails_the_next_turn(bench: Any, wait_until: Any, mode: str) -> None:
    bench.agent(
        """
        import os, threading
        from pathlib import Path
        def die():
            Path("dead").touch()
            os._exit(5)
        def answer(prompt):
            threading.Timer(0.1, die).start()
            return prompt
        """
    )
    session = await bench.open(bench.host(mode=mode), alone=True)
    await session.turn(content("one"), turn=0)
    await wait_until((bench.folder / "dead").exists)
    await wait_until(lambda: session._exit is not None)

    with pytest.raises(Exception, match="exit status 5"):
        await session.turn(content("two"), turn=1)


def content(text: str) -> Any:
    from workbench.model.evalset import Content

    return Content.of_text(text, role="user")
