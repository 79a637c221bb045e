"""Which share of what the agent said follows from what it had to go by, sentence by sentence.

Facts: google-adk 2.13, `hallucinations_v1`: supported and not applicable count as 1, unsupported, contradictory and
disputed as 0; a response takes the mean of its sentences, a turn that of its responses, the case that of its turns.
Unlike there the context has the earlier turns too: what the user said or a tool answered before is no invention now.
Instructions and tools are those of the turn, as there: a template may have put another state into each.
`num_samples` and `parallelism_limit` count; the responses of a turn are split once, so that all samples are about the
same sentences, and a sentence that no sample labels is an error and not left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from workbench.metrics.definition import (
    Definition,
    Judge,
    ModelJudge,
    ModelQuestion,
    PreparingQuestion,
)
from workbench.metrics.judges.conclusions import by_sentences
from workbench.metrics.judges.dialogue import final_speaker_of, happenings_of, instructions_of, response_of, tools_of
from workbench.metrics.judges.info import info_of_judge
from workbench.metrics.judges.options import read_judge_options
from workbench.metrics.judges.prompts import render
from workbench.metrics.judges.sentences import LABELS, has_words, read_labels, read_split
from workbench.metrics.options import Options
from workbench.metrics.subject import CaseView, Turn
from workbench.model.results import Score

NAME = "hallucinations_v1"
_ON_THE_WAY = "evaluate_intermediate_nl_responses"
_WORDLESS = Score.undefined("the agent said nothing that could be true or false")

_SPLIT_SCHEMA = {
    "type": "object",
    "properties": {
        "responses": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "number": {"type": "integer"},
                    "sentences": {"type": "array", "items": {"type": "string"}},
                },
                "required": ["number", "sentences"],
            },
        }
    },
    "required": ["responses"],
}
_LABEL_SCHEMA = {
    "type": "object",
    "properties": {
        "sentences": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "number": {"type": "integer"},
                    "supporting_excerpt": {"type": ["string", "null"]},
                    "contradicting_excerpt": {"type": ["string", "null"]},
                    "rationale": {"type": "string"},
                    "label": {"type": "string", "enum": list(LABELS)},
                },
                "required": ["number", "rationale", "label"],
            },
        }
    },
    "required": ["sentences"],
}
_WORDS = {"call": "TOOL CALL", "answer": "TOOL ANSWER", "grounding": "GROUNDING"}


def ask_hallucinations(turn: Turn, view: CaseView, *, on_the_way: bool) -> PreparingQuestion | Score:
    """The question about one turn; undefined where there are no words to check."""
    responses, context = _responses_in_context(_up_to(turn, view), on_the_way=on_the_way)
    if not responses:
        return _WORDLESS
    return PreparingQuestion(
        prompt=render("sentences", responses=responses),
        reply_schema=_SPLIT_SCHEMA,
        read=partial(_ask_labels, responses=responses, context=context, turn=turn),
    )


def _ask_labels(reply: str, *, responses: Sequence[str], context: Sequence[str], turn: Turn) -> ModelQuestion:
    sentences = read_split(reply, responses)
    prompt = render(
        "hallucinations",
        instructions=instructions_of([turn]),
        tools=tools_of([turn]),
        context=context,
        responses=len(responses),
        sentences=sentences,
    )
    return ModelQuestion(
        prompt=prompt,
        reply_schema=_LABEL_SCHEMA,
        read=partial(read_labels, sentences=sentences),
        conclude=partial(by_sentences, sentences=sentences),
    )


def _up_to(turn: Turn, view: CaseView) -> list[Turn]:
    turns = view.turns[: next(index for index, each in enumerate(view.turns) if each is turn) + 1]
    return [each for each in turns if each.actual is not None]


def _responses_in_context(turns: Sequence[Turn], *, on_the_way: bool) -> tuple[list[str], list[str]]:
    """What is to be checked of the last of these turns, and what happened, line by line, with the place of each."""
    context = [line for number, turn in enumerate(turns[:-1], start=1) for line in _lines(turn, number)]
    turn, number = turns[-1], len(turns)
    assert turn.actual is not None
    responses: list[str] = []

    def place_of(text: str) -> str:
        responses.append(text)
        return f"TURN {number} RESPONSE {len(responses)} WAS GIVEN HERE"

    context.append(f"TURN {number} USER: {turn.actual.user_content.text(thoughts=False)}")
    for happening in happenings_of(turn.actual):
        if happening.kind != "said":
            context.append(f"TURN {number} {_WORDS[happening.kind]}: {happening.text}")
        elif on_the_way and has_words(happening.text):
            context.append(place_of(happening.text))
        else:
            context.append(f"TURN {number} AGENT {happening.author}: {happening.text}")
    if has_words(final := response_of(turn.actual)):
        context.append(place_of(final))
    return responses, context


def _lines(turn: Turn, number: int) -> Iterator[str]:
    assert turn.actual is not None
    yield f"TURN {number} USER: {turn.actual.user_content.text(thoughts=False)}"
    for happening in happenings_of(turn.actual):
        said = happening.kind == "said"
        yield f"TURN {number} {f'AGENT {happening.author}' if said else _WORDS[happening.kind]}: {happening.text}"
    if final := response_of(turn.actual):
        yield f"TURN {number} {final_speaker_of(turn.actual)}: {final}"


def _prepare(options: Options) -> Sequence[Judge]:
    ask = partial(ask_hallucinations, on_the_way=options.flag(_ON_THE_WAY))
    return [ModelJudge(name=NAME, options=read_judge_options(options), ask=ask, prepares=True)]


METRICS: Sequence[Definition] = (
    Definition(
        info=info_of_judge(
            NAME,
            purpose="Which share of the sentences of the answer its context supports.",
            when="The agent must not make things up.",
            columns=("response",),
            options={_ON_THE_WAY: "check what was said on the way, too (default false)"},
            choices={_ON_THE_WAY: (False, True)},
        ),
        prepare=_prepare,
    ),
)
