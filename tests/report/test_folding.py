"""Tracebacks are shown with the user's own frames whole and those of libraries folded."""

from __future__ import annotations

from workbench.report.explain import fold_library_frames

PACKAGES = "/venv/lib/python3.11/site-packages"
TRACEBACK = f"""Traceback (most recent call last):
  File "{PACKAGES}/google/adk/runners.py", line 5, in run
    run_agent()
  File "{PACKAGES}/google/adk/flows/flow.py", line 9, in flow
    step(
    ^^^^^
  [Previous line repeated 7 more times]
  File "/usr/lib/python3.11/contextlib.py", line 9, in inner
    yield
  File "/home/me/agent.py", line 3, in look_up
    return prices[name]
           ~~~~~~^^^^^^
  File "{PACKAGES}/prices.py", line 3, in get
    raise KeyError(name)
KeyError: 'x'

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "/home/me/agent.py", line 8, in answer
    look_up()
ValueError: no
"""
FOLDED = """Traceback (most recent call last):
  … 3 frames in google.adk, contextlib
  File "/home/me/agent.py", line 3, in look_up
    return prices[name]
           ~~~~~~^^^^^^
  … 1 frame in prices
KeyError: 'x'

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "/home/me/agent.py", line 8, in answer
    look_up()
ValueError: no
"""


def test_frames_of_libraries_are_folded_and_others_are_whole() -> None:
    assert fold_library_frames(TRACEBACK) == FOLDED


def test_frames_of_an_exception_group_are_folded_too() -> None:
    def in_group(text: str) -> str:
        return "".join(f"  | {line}\n" for line in text.split("\n"))

    assert fold_library_frames(in_group(TRACEBACK)) == in_group(FOLDED)


def test_a_traceback_of_libraries_alone_stays_whole() -> None:
    text = TRACEBACK.replace("/home/me", PACKAGES)

    assert fold_library_frames(text) == text
