"""What conversations by hand ask of a session beyond what cases do: steps as they begin, the state between turns."""

from __future__ import annotations

from typing import Any

import pytest


async def test_spans_are_announced_on_request(bench: Any, way: dict[str, Any]) -> None:
    bench.agent("def answer(prompt): return prompt")

    talk = await bench.talk(bench.host(**way), "hi", announce_spans=True)

    began, ended = talk.spans
    assert (began.id, began.is_running, began.request) == (ended.id, True, "hi")
    assert ended.duration is not None


async def test_the_state_between_turns(bench: Any, way: dict[str, Any]) -> None:
    bench.agent(
        """
        def answer(prompt, session):
            session.state[prompt] = len(session.history)
            return prompt
        """
    )
    session = await bench.open(bench.host(**way), state={"a": 1})

    assert await session.state() is None
    seen = []
    for turn, prompt in enumerate(["x", "y"]):
        await session.turn(content(prompt), turn=turn)
        seen.append(await session.state())
    await session.finish()

    assert seen == [{"a": 1, "x": 0}, {"a": 1, "x": 0, "y": 1}]


@pytest.mark.parametrize("mode", ["fork", "once"])
async def test_a_process_that_dies_between_turns_fails_the_next_turn(bench: Any, eventually: Any, mode: str) -> None:
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
    await eventually((bench.folder / "dead").exists)
    await eventually(lambda: session._exit is not None)

    with pytest.raises(Exception, match="exit status 5"):
        await session.turn(content("two"), turn=1)


def content(text: str) -> Any:
    from workbench.model.evalset import Content

    return Content.of_text(text, role="user")
