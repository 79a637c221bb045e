"""Home automation in English, Portuguese and Chinese, simplified and traditional.

This agent answers from a script: the patterns of `phrases.py` find out what is wanted, the tools of `tools.py` do it.
No model is asked, and the same words always get the same answer. It is reached as `home_automation.agent:answer`, the
two-parameter form of a function agent, and keeps the home in the state of the session.
"""

import re
from typing import NamedTuple

from .phrases import language_of
from .tools import Home, HomeError


class Wish(NamedTuple):
    """One thing the user wants, and the words for it. What the words did not say is None."""

    words: str
    intent: str | None
    device_id: str | None
    kind: str | None
    room: str | None
    degrees: str | None


def answer(prompt, session):
    """Do what the user asks in this home; tell what was done, which tools were called and what they gave."""
    butler = Butler(Home(session.state), language_of(prompt), session.history)
    sentences = [butler.fulfil(wish) for wish in understand(prompt, butler.language)]
    return {
        "response": butler.language.joiner.join(sentences),
        "predicted_trajectory": butler.calls,
        "tool_responses": butler.responses,
    }


def understand(prompt, language):
    """The wishes in a text: "turn off device_3 and device_4" are two, the second with the intent of the first."""
    wishes = []
    for clause in re.split(language.separator, prompt, flags=re.IGNORECASE):
        wish = read_clause(clause, language)
        if wish.intent is None and wishes:
            wish = wish._replace(intent=wishes[-1].intent)
        wishes.append(wish)
    return wishes


def read_clause(clause, language):
    """What one clause wants, as far as the patterns of the language tell."""
    found = ((intent, re.search(pattern, clause, re.IGNORECASE)) for intent, pattern in language.intents.items())
    intent, match = next(((intent, match) for intent, match in found if match), (None, None))
    device = re.search(r"device_\d+", clause)
    return Wish(
        words=clause.lower(),
        intent=intent,
        device_id=device and device.group(),
        kind=spoken(language.kinds, clause),
        room=spoken(language.rooms, clause),
        degrees=match.group("degrees") if intent == "set_temperature" else None,
    )


def spoken(words, clause):
    """The key of the first of `words` that the clause contains."""
    return next((key for key, word in words.items() if word in clause.lower()), None)


def number(text):
    """The number that a text spells in digits."""
    return int(text) if text.isdecimal() else float(text.replace(",", "."))


def choose(wish, devices):
    """The device that is meant: the first one of its kind."""
    return next((key for key, device in devices.items() if device["kind"] == wish.kind), None)


class Butler:
    """Fulfils the wishes of one turn, and writes down each tool call and what came of it."""

    def __init__(self, home, language, history):
        self.home = home
        self.language = language
        self.history = history
        self.calls = []
        self.responses = []

    def fulfil(self, wish):
        """Do one thing and say so. A tool that refuses is reported to the user in the user's language."""
        try:
            if wish.intent in ("ON", "OFF"):
                return self.switch(wish)
            if wish.intent in ("set_temperature", "get_temperature") and wish.room:
                return self.regulate(wish)
            if wish.intent == "get_status" and wish.device_id:
                return self.report(wish.device_id)
        except HomeError as problem:
            return self.say(problem.reason, **problem.facts)
        if wish.intent == "recall":
            return self.recall()
        return self.say("capabilities" if wish.intent == "capabilities" else "no_rule")

    def switch(self, wish):
        """Switch the device that was named, or those of a kind in a room."""
        if wish.device_id:
            room = wish.room or self.use(self.home.get_device_info, device_id=wish.device_id)["location"]
            return self.set_status(wish.device_id, room, wish.intent)
        if not (wish.kind and wish.room):
            return self.say("no_rule")
        there = self.use(self.home.list_devices, location=wish.room)
        if wish.kind == "*":
            return self.language.joiner.join(self.set_status(key, wish.room, wish.intent) for key in there)
        chosen = choose(wish, there)
        if chosen is None:
            return self.say("nothing_there", room=wish.room)
        return self.set_status(chosen, wish.room, wish.intent)

    def set_status(self, device_id, room, status):
        """Switch one device and say so."""
        self.use(self.home.set_device_info, location=room, device_id=device_id, status=status)
        return self.say("set_status", device_id=device_id, status=self.language.statuses[status])

    def report(self, device_id):
        """Say whether a device is on."""
        status = self.use(self.home.get_device_info, device_id=device_id)["status"]
        return self.say("get_status", device_id=device_id, status=self.language.statuses[status])

    def regulate(self, wish):
        """Read or set the temperature of a room.

        `designed_error_degrees_in_words` shows what happens where the user writes "twenty": `number` raises ValueError
        and nobody catches it.
        """
        if wish.intent == "get_temperature":
            temperature = self.use(self.home.get_temperature, location=wish.room)
        else:
            temperature = number(wish.degrees)
            self.use(self.home.set_temperature, location=wish.room, temperature=temperature)
        return self.say(wish.intent, room=wish.room, temperature=temperature)

    def recall(self):
        """Repeat what the user said in the turn before."""
        if not self.history:
            return self.say("no_command")
        return self.say("recall", command=self.history[-1]["prompt"])

    def use(self, tool, **arguments):
        """Call a tool, having written down that it is called; then write down what it gave, or why it refused."""
        self.calls.append({"tool_name": tool.__name__, "tool_input": arguments})
        try:
            result = tool(**arguments)
        except HomeError as problem:
            self.responses.append({"name": tool.__name__, "response": {"error": str(problem)}})
            raise
        self.responses.append({"name": tool.__name__, "response": {"result": result}})
        return result

    def say(self, what, room=None, **facts):
        """One sentence in the user's language."""
        place = self.language.places.get(room)
        return self.language.replies[what].format(place=place, **facts)
