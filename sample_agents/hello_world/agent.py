"""Dice and primes, as ADK's hello-world agent has them, in English, Portuguese and Chinese.

These agents answer from a script: patterns find out what is wanted, the tools of `tools.py` do it, no model is asked.
`answer` is the two-parameter form of a function agent: it keeps its rolls in the session, and a `seed` in the session's
state makes them fall the same way each time. `introduce` is the simplest form there is: text in, text out.
"""

import re

from .phrases import language_of
from .tools import LARGEST, Table, TooLarge


def introduce(prompt):
    """Say what the agent can do, in the language of the question."""
    language = language_of(prompt)
    asked = re.search(language.abilities, prompt, re.IGNORECASE)
    return language.replies["abilities" if asked else "no_rule"]


def answer(prompt, session):
    """Roll and check what the user asks for; tell the results and which tools were called."""
    language = language_of(prompt)
    player = Player(Table(session.state), language)
    sentences = [player.play(clause) for clause in re.split(language.separator, prompt, flags=re.IGNORECASE)]
    return {
        "response": language.joiner.join(sentences),
        "predicted_trajectory": player.calls,
        "tool_responses": player.responses,
    }


class Player:
    """Plays one turn, and writes down each tool call before making it."""

    def __init__(self, table, language):
        self.table = table
        self.language = language
        self.calls = []
        self.responses = []
        self._before = len(table.rolls)

    def play(self, clause):
        """Do what one clause wants and say what came of it."""
        if self._wants(self.language.prime, clause):
            return self.check(clause)
        sides = self._first_group(self.language.sides, clause)
        if sides and self._wants(self.language.roll, clause):
            return self.roll(int(sides), times=self._count(clause))
        return self.say("abilities" if self._wants(self.language.abilities, clause) else "no_rule")

    def roll(self, sides, times):
        """Roll a die so many times.

        Nobody looks whether there can be such a die: `designed_error_die_without_sides` shows the exception that
        escapes.
        """
        *others, last = [str(self.use(self.table.roll_die, sides=sides)) for _ in range(times)]
        return self.say("rolled", numbers=self.language.and_.join([", ".join(others), last] if others else [last]))

    def check(self, clause):
        """Check the numbers named, else those just rolled, else the last one (or all, if the user says "them")."""
        numbers = [int(digits) for digits in re.findall(r"\d+", clause)] or self._rolls_meant(clause)
        if not numbers:
            return self.say("no_rolls")
        try:
            primes = self.use(self.table.check_prime, nums=numbers)
        except TooLarge:
            return self.say("too_large", largest=LARGEST)
        verdicts = (self.say("prime" if number in primes else "not_prime", number=number) for number in numbers)
        return self.language.joiner.join(verdicts)

    def use(self, tool, **arguments):
        """Call a tool, having written down that it is called."""
        self.calls.append({"tool_name": tool.__name__, "tool_input": arguments})
        result = tool(**arguments)
        self.responses.append({"name": tool.__name__, "response": {"result": result}})
        return result

    def say(self, what, **facts):
        """One sentence in the user's language."""
        return self.language.replies[what].format(**facts)

    def _rolls_meant(self, clause):
        if self._wants(self.language.all_rolls, clause):
            return list(self.table.rolls)
        return self.table.rolls[self._before :] or self.table.rolls[-1:]

    def _count(self, clause):
        found = re.finditer(self.language.count, clause, re.IGNORECASE)
        words = [group.lower() for match in found for group in match.groups() if group]
        return max([1, *(int(word) if word.isdecimal() else self.language.counts.get(word, 1) for word in words)])

    def _first_group(self, pattern, clause):
        match = re.search(pattern, clause, re.IGNORECASE)
        return match and next(group for group in match.groups() if group)

    def _wants(self, pattern, clause):
        return re.search(pattern, clause, re.IGNORECASE) is not None
