"""A metric that compares the loudness of two answers, and a judge that finds capitals loud."""

from __future__ import annotations

import json

from tests.llm.servers import Call, HttpResponse, gemini

LOUDER = {
    "kind": "pairwise",
    "criteria": {"Loud": "Is it loud?"},
    "rating_rubric": {"A": "A is louder.", "B": "B is louder."},
}


def extract_tag(text: str, name: str) -> str:
    return text.split(f"<{name}>\n")[1].split(f"\n</{name}>", maxsplit=1)[0]


def answer(call: Call) -> HttpResponse:
    """Judge text in capitals as loud."""
    text = call.body["contents"][0]["parts"][0]["text"]
    if "<response_a>" in text:
        loud = [extract_tag(text, name).isupper() for name in ("response_a", "response_b")]
        choice = "SAME" if loud[0] == loud[1] else "A" if loud[0] else "B"
        return gemini(json.dumps({"explanation": "e", "pairwise_choice": choice}))
    return gemini(json.dumps({"explanation": "e", "score": int(extract_tag(text, "response").isupper())}))
