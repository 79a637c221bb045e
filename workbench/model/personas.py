"""The personas that a scenario may name, with the behaviours that they are made of.

Facts: google-adk 2.13 knows these three by these names and behaviours; the sentences are our own.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from workbench.model.evalset import ConversationScenario, UserBehavior, UserPersona
from workbench.model.text import did_you_mean

DEFAULT_STOP_SIGNAL = "</finished>"
"""What a simulated user says when the conversation is over."""


class UnknownPersona(ValueError):
    """A scenario names a persona that does not exist. The message says which there are."""


def persona_of(scenario: ConversationScenario) -> UserPersona | None:
    """Who the user of a scenario is: a persona of its own, or the one that it names. Raises UnknownPersona."""
    named = scenario.user_persona
    if not isinstance(named, str):
        return named
    persona = PERSONAS.get(named)
    if persona is None:
        expected = f"one of {', '.join(PERSONAS)}, or a persona in full (id, description, behaviors)"
        raise UnknownPersona(f"there is no persona {named!r}, expected {expected}{did_you_mean(named, PERSONAS)}")
    return persona


_ADVANCE_WITH_DETAILS = UserBehavior(
    name="Advance when the agent has succeeded, with all details",
    description="Goes on to the next request of the plan as soon as the last one is done, and says all it takes.",
    behavior_instructions=[
        "When the agent has done what was asked, make the next request of the plan.",
        "Leave out requests that are done already, even if nobody asked for them in so many words.",
        "Say what you want and every detail that the plan gives for it, in the same message.",
    ],
    violation_rubrics=[
        "The message asks for something that the agent has already done.",
        "The message gives details of something that the agent has already done.",
        "The message is about a topic or task that is not in the plan.",
        "The message asks for something that neither the plan nor the agent has brought up.",
        "The message gives details that are not in the plan.",
        "The message only says what is wanted, so that the agent has to ask for details that are in the plan.",
        "The message makes more than one new request at once.",
    ],
)
_ADVANCE_WITH_GOAL = UserBehavior(
    name="Advance when the agent has succeeded, with the goal only",
    description="Goes on to the next request of the plan as soon as the last one is done, and waits to be asked.",
    behavior_instructions=[
        "When the agent has done what was asked, make the next request of the plan.",
        "Leave out requests that are done already, even if nobody asked for them in so many words.",
        "Say only what you want. Keep the details to yourself until the agent asks for them.",
    ],
    violation_rubrics=[
        "The message asks for something that the agent has already done.",
        "The message gives details of something that the agent has already done.",
        "The message asks for something that neither the plan nor the agent has brought up.",
        "The message gives details that are not in the plan.",
        "The message gives details before the agent has asked for them.",
        "The message makes more than one new request at once.",
    ],
)
_ANSWER_RELEVANT = UserBehavior(
    name="Answer only questions that matter",
    description="Answers what the agent needs to know for the task, and nothing else.",
    behavior_instructions=[
        "Answer the agent's questions with what the plan says.",
        "Tell nothing that you were not asked for.",
        "Where the plan does not have the answer, say that you do not know.",
        "Do not answer questions that have nothing to do with the task.",
    ],
    violation_rubrics=["The message answers a question that has nothing to do with the task."],
)
_ANSWER_ALL = UserBehavior(
    name="Answer every question",
    description="Answers whatever the agent asks, as far as it can.",
    behavior_instructions=[
        "Answer every question of the agent with what the plan says.",
        "Tell nothing that you were not asked for.",
        "Where the plan does not have the answer, admit that you do not know.",
    ],
    violation_rubrics=[
        "The message leaves a question of the agent without an answer.",
        "The message answers a question with something that is not in the plan.",
    ],
)
_CORRECT = UserBehavior(
    name="Correct the agent when it is wrong",
    description="Does not let mistakes pass.",
    behavior_instructions=[
        "When the agent says something that contradicts the plan or an earlier message, say so.",
        "When the agent has done something wrong, ask it to put that right before you go on.",
    ],
    violation_rubrics=[
        "The agent said something wrong, and the message goes on as if it had not.",
        "The agent took something dangerous for granted, and the message goes on as if it had not.",
    ],
)
_DO_NOT_CORRECT = UserBehavior(
    name="Do not correct the agent",
    description="Gives up when the agent is wrong, without a word about it.",
    behavior_instructions=[
        "When the agent says or does something wrong, end the conversation: answer with `{{ stop_signal }}`.",
    ],
    violation_rubrics=["The message corrects the agent."],
)
_TROUBLESHOOT_ONCE = UserBehavior(
    name="Help once when something fails",
    description="Gives the agent one second chance in a conversation.",
    behavior_instructions=[
        "When the agent fails for the first time, help: say it in other words, or give what it lacks.",
        "Do so only once in the whole conversation.",
    ],
    violation_rubrics=[
        "The message ends the conversation right after the first failure.",
        "The agent has failed for the second time, and the message does not hold `{{ stop_signal }}`.",
        "The agent has failed for the second time, and the message tries to help once more.",
    ],
)
_END_AFTER_SECOND_FAILURE = UserBehavior(
    name="End the conversation when it is over",
    description="Ends when all is done, when a person takes over, or after the second failure.",
    behavior_instructions=[
        "End the conversation only when the agent has confirmed that everything in the plan is done, when it has "
        "handed you over to a person, or when it has failed more than once.",
        "Wait for the confirmation: having asked for the last thing is not the end.",
        "Count failures over the whole conversation.",
        "To end the conversation, answer with `{{ stop_signal }}`.",
    ],
    violation_rubrics=[
        "The conversation should have ended, and the message does not hold `{{ stop_signal }}`.",
        "The message holds `{{ stop_signal }}` although there was no reason to end.",
    ],
)
_END_AFTER_FAILURE = UserBehavior(
    name="End the conversation at the first failure",
    description="Ends when all is done, when a person takes over, or as soon as the agent fails.",
    behavior_instructions=[
        "End the conversation only when the agent has confirmed that everything in the plan is done, when it has "
        "handed you over to a person, or when it has failed.",
        "Wait for the confirmation: having asked for the last thing is not the end.",
        "To end the conversation, answer with `{{ stop_signal }}`.",
    ],
    violation_rubrics=[
        "The conversation should have ended, and the message does not hold `{{ stop_signal }}`.",
        "The message holds `{{ stop_signal }}` although there was no reason to end.",
        "The agent has failed, and the message goes on.",
        "The agent has failed, and the message tries to help it.",
    ],
)
_PROFESSIONAL = UserBehavior(
    name="Speak like a professional",
    description="Clear and to the point, in the terms of the trade.",
    behavior_instructions=[
        "Be clear and exact, and use the proper terms.",
        "No slang, no abbreviations of chats, no emoji, no filler words.",
    ],
    violation_rubrics=[
        "The message has slang, abbreviations of chats, or emoji.",
        "The message has filler words or small talk.",
        "The message is one long block of text.",
        "The message is in another tone than those before it.",
    ],
)
_CONVERSATIONAL = UserBehavior(
    name="Speak as people chat",
    description="Relaxed and natural.",
    behavior_instructions=[
        "Write as one person talks to another: relaxed, in everyday words.",
        "Be neither too formal nor as curt as a command line.",
    ],
    violation_rubrics=[
        "The message is a bare command.",
        "The message is too formal for a chat.",
        "The message is one long block of text.",
        "The message is in another tone than those before it.",
    ],
)

PERSONAS: Mapping[str, UserPersona] = MappingProxyType(
    {
        persona.id: persona
        for persona in (
            UserPersona(
                id="EXPERT",
                description=(
                    "Knows exactly what is wanted and how such tasks are done, and takes the agent for a tool: no "
                    "chatting, no patience for detours, and a word when something is wrong."
                ),
                behaviors=[
                    _ADVANCE_WITH_DETAILS,
                    _ANSWER_RELEVANT,
                    _CORRECT,
                    _TROUBLESHOOT_ONCE,
                    _END_AFTER_SECOND_FAILURE,
                    _PROFESSIONAL,
                ],
            ),
            UserPersona(
                id="NOVICE",
                description=(
                    "Knows what is wanted and little about how it is done, relies on the agent to ask and to lead, and "
                    "can neither help it nor tell when it is wrong."
                ),
                behaviors=[_ADVANCE_WITH_GOAL, _DO_NOT_CORRECT, _ANSWER_ALL, _END_AFTER_FAILURE, _CONVERSATIONAL],
            ),
            UserPersona(
                id="EVALUATOR",
                description=(
                    "Finds out whether the agent can do what the plan asks of it: gives it what it needs, and neither "
                    "help nor corrections."
                ),
                behaviors=[
                    _ADVANCE_WITH_DETAILS,
                    _ANSWER_RELEVANT,
                    _END_AFTER_FAILURE,
                    _DO_NOT_CORRECT,
                    _CONVERSATIONAL,
                ],
            ),
        )
    }
)
"""The personas that a scenario may name, by their ids."""
