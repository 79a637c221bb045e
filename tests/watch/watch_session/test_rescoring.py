"""Edited expectations, criteria and metrics: the watch rescores, and runs no agent."""

from __future__ import annotations

import json
from pathlib import Path

from tests.watch.watched import Folder, watch_project


async def test_changed_expectations_and_criteria_are_rescored_without_the_agent(folder: Folder) -> None:
    folder.write("agent.py", 'from pathlib import Path\n\ndef answer(prompt):\n    Path(f"ran {prompt}").touch()\n'
                 "    return prompt\n")  # fmt: skip
    async with watch_project(folder.root) as watch:
        await watch.wait_until_quiet()
        await watch.apply(lambda: list(map(Path.unlink, folder.root.glob("ran *"))))

        def expect_something_else() -> None:
            text = (folder.root / "set.evalset.json").read_text()
            head, _, tail = text.rpartition('"text": "down"')
            folder.write("set.evalset.json", f'{head}"text": "else"{tail}')

        judged = await watch.apply(expect_something_else)
        assert judged.verdicts == {"down": "FAILED"}
        assert (judged.change.run, judged.change.judged) == (0, 1)

        criteria = await watch.apply(lambda: folder.criteria(exact_match=0.0))
        assert criteria.verdicts == {"up_1": "PASSED", "up_2": "PASSED", "down": "PASSED"}

    assert not list(folder.root.glob("ran *"))


async def test_an_edited_metric_rescores_stored_answers_with_its_new_code(folder: Folder) -> None:
    metric = "def own(instance):\n    return {'score': 1.0}\n"
    folder.write("metrics.py", metric)
    custom = {"own": {"code_config": {"name": "metrics.own"}}}
    folder.write("test_config.json", json.dumps({"criteria": {"own": 1.0}, "custom_metrics": custom}))
    async with watch_project(folder.root) as watch:
        assert set((await watch.wait_until_quiet()).verdicts.values()) == {"PASSED"}

        for score, status in (("0.5", "FAILED"), ("2.0", "PASSED")):
            judged = await watch.apply(lambda score=score: folder.write("metrics.py", metric.replace("1.0", score)))
            assert (judged.change.run, judged.change.judged) == (0, 3)
            assert set(judged.verdicts.values()) == {status}


async def test_an_edited_metric_rescores_verdicts_of_earlier_sessions(folder: Folder) -> None:
    folder.write("metrics.py", "def own(instance):\n    return {'score': 1.0}\n")
    custom = {"own": {"code_config": {"name": "metrics.own"}}}
    folder.write("test_config.json", json.dumps({"criteria": {"own": 1.0}, "custom_metrics": custom}))
    async with watch_project(folder.root) as watch:
        await watch.wait_until_quiet()

    async with watch_project(folder.root, catches_up=False) as watch:
        await watch.wait_until_quiet()
        judged = await watch.apply(
            lambda: folder.write("metrics.py", "def own(instance):\n    return {'score': 0.0}\n")
        )
        assert set(judged.verdicts.values()) == {"FAILED"}
