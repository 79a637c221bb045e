"""Requests to a model and its responses, as recordings have them."""

from __future__ import annotations

from typing import Any


def make_request(text: str = "hello", **body: Any) -> dict[str, Any]:
    instruction = {"role": "system", "content": "You are nice.\nBe short."}
    messages = [instruction, {"role": "user", "content": text}]
    return {"method": "POST", "url": "http://m/v1/chat/completions", "body": {"messages": messages, **body}}


def make_response(text: str, *, status: int = 200) -> dict[str, Any]:
    return {"status": status, "headers": {}, "chunks": [[0.1, text]]}
