"""Dice and primes: the tools of ADK's hello-world sample, with dice that can be made to fall the same way again."""

import random

LARGEST = 1_000_000_000  # trial division stays below 32,000 steps

_random = random.SystemRandom()


class TooLarge(Exception):
    """A number that `check_prime` does not look at."""


class Table:
    """A table to roll dice on.

    `state` is the session's: `rolls` are the results so far, and with a `seed` the n-th roll of a session is always the
    same. Without one the dice are honest.
    """

    def __init__(self, state):
        self.rolls = state.setdefault("rolls", [])
        self._seed = state.get("seed")

    def roll_die(self, sides):
        """Roll a die and remember the result."""
        dice = _random if self._seed is None else random.Random(f"{self._seed}/{len(self.rolls)}")
        self.rolls.append(dice.randint(1, sides))
        return self.rolls[-1]

    def check_prime(self, nums):
        """Those of the numbers that are prime, in the order given."""
        for number in nums:
            if number > LARGEST:
                raise TooLarge(number)
        return [number for number in nums if is_prime(number)]


def is_prime(number):
    """Whether a number has exactly two divisors; 1 has one."""
    if number < 4:
        return number > 1
    return number % 2 > 0 and all(number % divisor for divisor in range(3, int(number**0.5) + 1, 2))
