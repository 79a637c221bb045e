"""The tools: dice that can be made to fall the same way again, and a check for primes that has a limit."""

import random

from google.adk.tools import ToolContext

LARGEST = 1_000_000_000  # trial division stays below 32,000 steps

_random = random.SystemRandom()


def roll_die(sides: int, tool_context: ToolContext) -> dict:
    """Roll a die and remember the result in the session.

    Args:
        sides: How many sides the die has.

    Returns:
        The result of the roll.
    """
    # With a `seed` in the session's state the n-th roll of a session is always the same; without one dice are honest.
    # Nobody looks whether there can be such a die: `designed_error_die_without_sides` shows the exception that escapes.
    state = tool_context.state
    rolls = state.get("rolls", [])
    dice = _random if state.get("seed") is None else random.Random(f"{state['seed']}/{len(rolls)}")
    result = dice.randint(1, sides)
    state["rolls"] = [*rolls, result]
    return {"result": result}


def check_prime(nums: list[int]) -> dict:
    """Check which of the given numbers are prime.

    Args:
        nums: The numbers to check.

    Returns:
        The numbers that are prime, or an error where a number is too large to check.
    """
    too_large = [number for number in nums if number > LARGEST]
    if too_large:
        return {"status": "error", "error": f"{too_large[0]} is too large: only numbers up to {LARGEST} can be checked"}
    return {"status": "success", "primes": [number for number in nums if is_prime(number)]}


def is_prime(number: int) -> bool:
    """Whether a number has exactly two divisors; 1 has one."""
    if number < 4:
        return number > 1
    return number % 2 > 0 and all(number % divisor for divisor in range(3, int(number**0.5) + 1, 2))
