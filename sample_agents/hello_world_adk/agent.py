"""Dice and primes as a real ADK agent: the root agent rolls, and hands over to a sub-agent that knows primes.

The model is Gemini where it can be asked (GOOGLE_API_KEY, GEMINI_API_KEY, or GOOGLE_GENAI_USE_VERTEXAI for Vertex AI),
and else the script of `script.py`, which needs no network and says that it is a script. `HELLO_WORLD_MODEL` chooses by
hand: `script`, or the name of a Gemini model. The verdicts in `expected.json` are those of the script.
"""

import os

from google.adk.agents import LlmAgent

from .script import ScriptedModel
from .tools import check_prime, roll_die

GEMINI = "gemini-2.5-flash"


def choose_model():
    """Gemini's name where it can be asked, else the script."""
    chosen = os.environ.get("HELLO_WORLD_MODEL")
    if chosen:
        return ScriptedModel() if chosen == "script" else chosen
    has_key = bool(os.environ.get("GOOGLE_API_KEY") or os.environ.get("GEMINI_API_KEY"))
    has_vertex = os.environ.get("GOOGLE_GENAI_USE_VERTEXAI", "").lower() in ("1", "true")
    return GEMINI if has_key or has_vertex else ScriptedModel()


prime_checker = LlmAgent(
    name="prime_checker",
    model=choose_model(),
    description="Checks whether numbers are prime.",
    instruction="""
        You check whether numbers are prime, always with the tool check_prime, called once with all the numbers.
        If the user names no numbers, the numbers just rolled are meant. Rolls so far: {rolls?}
        If dice were rolled for this message, tell the results first. Answer in the language of the user, briefly:
        "I rolled 17. 17 is prime."
    """,
    tools=[check_prime],
    # Every message of the user starts with the root agent, so that dice are always rolled by the one who has them.
    disallow_transfer_to_parent=True,
    disallow_transfer_to_peers=True,
)

root_agent = LlmAgent(
    name="hello_world_adk",
    model=choose_model(),
    description="Rolls dice and has primes checked.",
    instruction="""
        You roll dice with the tool roll_die, once for each die, and tell the results: "I rolled 4 and 7."
        Never make a result up. Rolls so far: {rolls?}
        As soon as a message asks about primes, roll what it wants rolled, then transfer to prime_checker.
        Answer in the language of the user, briefly.
    """,
    tools=[roll_die],
    sub_agents=[prime_checker],
)
