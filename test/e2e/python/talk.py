"""Holds the conversation that stands on standard input, for every model and with and without streams, and prints what was said as JSON lines."""
import json
import os
import sys
from typing import Any, Callable, Protocol

URL = os.environ["SLUICE_URL"]
KEY = os.environ["SLUICE_KEY"]
LONGEST = 2000
NAME = "get_weather"
DESCRIPTION = "The weather of a city."
SCHEMA = {"type": "object", "properties": {"city": {"type": "string", "description": "Its name."}}, "required": ["city"]}


class Conversation(Protocol):
    def ask(self, text: str) -> dict[str, Any]: ...
    def answer(self, results: list[str]) -> dict[str, Any]: ...


def said(text: str, thoughts: str, calls: list[dict[str, Any]], ended: str, tokens: tuple[int, int, int]) -> dict[str, Any]:
    given, cached, made = tokens
    return {"text": text, "thoughts": thoughts, "calls": calls, "ended": ended, "usage": {"input": given, "cached": cached, "output": made}}


def talk(libraries: dict[str, Callable[[str, bool], Conversation]]) -> None:
    """`libraries`: by the name of the protocol that they speak."""
    script = json.load(sys.stdin)
    for protocol, open_conversation in libraries.items():
        for channel in script["channels"]:
            for streamed in (False, True):
                conversation = open_conversation(f"via-{channel}", streamed)
                turns = [conversation.ask(step["ask"]) if "ask" in step else conversation.answer(step["answer"]) for step in script["steps"]]
                print(json.dumps({"protocol": protocol, "channel": channel, "streamed": streamed, "said": turns}), flush=True)
