"""A model that is none: it reads the conversation as a model would and answers from a script, offline, always alike.

It sees what Gemini would see (instruction, contents, tools) and answers in the same form: tool calls, transfers, text.
Each of its answers says so: `model_version` is "script", and `custom_metadata` has `answered_by`.
"""

import re

from google.adk.models import BaseLlm, LlmResponse
from google.genai import types

from .phrases import language_of


class ScriptedModel(BaseLlm):
    """Answers from the patterns of `phrases.py`."""

    model: str = "script"

    async def generate_content_async(self, llm_request, stream=False):  # noqa: ARG002 - ADK's signature
        """Yield one answer. There is nothing to stream."""
        yield LlmResponse(
            content=types.Content(role="model", parts=Scene(llm_request).play()),
            model_version="script",
            custom_metadata={"answered_by": "a script, no model was asked"},
        )


class Scene:
    """One request: what the user wants, what has been done about it, which tools there are."""

    def __init__(self, request):
        self.text, since = _last_message(request.contents)
        self.language = language_of(self.text)
        self.tools = request.tools_dict
        self.answers = _tool_answers(since)
        instruction = str(request.config.system_instruction or "")
        self.rolls = _numbers(re.search(r"Rolls so far: \[([^\]]*)", instruction))

    def play(self):
        """The parts of the answer."""
        if "check_prime" in self.tools:
            return self.check()
        if self.wants("roll") and "roll_die" not in self.answers:
            return [_call("roll_die", sides=self.sides())] * self.count()
        if self.wants("prime"):
            return [_call("transfer_to_agent", agent_name="prime_checker")]
        if self.wants("roll"):
            return self.say(self.rolled(answer["result"] for answer in self.answers["roll_die"]))
        return self.say(self.reply("abilities" if self.wants("abilities") else "no_rule"))

    def check(self):
        """As the sub-agent: check the numbers that are meant, then tell."""
        rolled = self.rolls[-self.count() :] if self.wants("roll") else []
        numbers = self.named_numbers() or rolled or (self.rolls if self.wants("all_rolls") else self.rolls[-1:])
        if not numbers:
            return self.say(self.reply("no_rolls"))
        if "check_prime" not in self.answers:
            return [_call("check_prime", nums=numbers)]
        answer = self.answers["check_prime"][-1]
        if "error" in answer:
            return self.say(self.reply("too_large"))
        verdicts = [self.reply("prime" if n in answer["primes"] else "not_prime", number=n) for n in numbers]
        return self.say(*([self.rolled(rolled)] if rolled else []), *verdicts)

    def wants(self, what):
        """Whether the user's words have to do with this."""
        return re.search(getattr(self.language, what), self.text, re.IGNORECASE) is not None

    def sides(self):
        """How many sides the die has; six where the user does not say."""
        return int(self._first_group(self.language.sides) or 6)

    def count(self):
        """How many dice are rolled."""
        word = (self._first_group(self.language.count) or "1").lower()
        return int(word) if word.isdecimal() else self.language.counts[word]

    def named_numbers(self):
        """The numbers in the user's words, without those that describe dice."""
        text = re.sub(f"{self.language.sides}|{self.language.count}", " ", self.text, flags=re.IGNORECASE)
        return [int(digits) for digits in re.findall(r"\d+", text)]

    def rolled(self, numbers):
        """The sentence about the dice."""
        *others, last = [str(number) for number in numbers]
        return self.reply("rolled", numbers=self.language.and_.join([", ".join(others), last] if others else [last]))

    def reply(self, what, **facts):
        """One sentence in the user's language."""
        return self.language.replies[what].format(**facts)

    def say(self, *sentences):
        """An answer in words."""
        return [types.Part(text=self.language.joiner.join(sentences))]

    def _first_group(self, pattern):
        match = re.search(pattern, self.text, re.IGNORECASE)
        return match and next(group for group in match.groups() if group)


def _last_message(contents):
    """The user's last words, and what came after them. What other agents did is told as if by the user: skipped."""
    for index in range(len(contents) - 1, -1, -1):
        content = contents[index]
        text = "".join(part.text or "" for part in content.parts or ())
        if content.role == "user" and text and not text.startswith("For context:"):
            return text, contents[index + 1 :]
    return "", contents


def _tool_answers(contents):
    """What each tool has answered, in order."""
    answers = {}
    for content in contents:
        for part in content.parts or ():
            if part.function_response:
                answers.setdefault(part.function_response.name, []).append(part.function_response.response)
    return answers


def _call(name, **arguments):
    return types.Part(function_call=types.FunctionCall(name=name, args=arguments))


def _numbers(match):
    return [int(digits) for digits in re.findall(r"\d+", match.group(1))] if match else []
