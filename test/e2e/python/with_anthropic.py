"""Anthropic's library."""
from typing import Any

from anthropic import Anthropic

from talk import DESCRIPTION, KEY, LONGEST, NAME, SCHEMA, URL, said, talk

client = Anthropic(base_url=URL, api_key=KEY, max_retries=0)


class Messages:
    def __init__(self, model: str, streamed: bool) -> None:
        self.model, self.streamed = model, streamed
        self.history: list[Any] = []

    def ask(self, text: str) -> dict[str, Any]:
        self.history.append({"role": "user", "content": text})
        return self.turn()

    def answer(self, results: list[str]) -> dict[str, Any]:
        calls = [block for block in self.history[-1]["content"] if block.type == "tool_use"]
        content = [{"type": "tool_result", "tool_use_id": call.id, "content": result} for call, result in zip(calls, results)]
        self.history.append({"role": "user", "content": content})
        return self.turn()

    def turn(self) -> dict[str, Any]:
        body: Any = {
            "model": self.model, "max_tokens": LONGEST, "system": "Be brief.", "messages": self.history, "thinking": {"type": "enabled", "budget_tokens": 1024},
            "tools": [{"name": NAME, "description": DESCRIPTION, "input_schema": SCHEMA}],
        }
        if self.streamed:
            with client.messages.stream(**body) as stream:
                message = stream.get_final_message()
        else:
            message = client.messages.create(**body)
        self.history.append({"role": "assistant", "content": message.content})
        text = "".join(block.text for block in message.content if block.type == "text")
        thoughts = "".join(block.thinking for block in message.content if block.type == "thinking")
        calls = [{"name": block.name, "input": block.input} for block in message.content if block.type == "tool_use"]
        ended = {"end_turn": "stop", "tool_use": "calls", "max_tokens": "length"}[message.stop_reason]
        usage = message.usage
        cached = usage.cache_read_input_tokens or 0
        return said(text, thoughts, calls, ended, (usage.input_tokens + cached + (usage.cache_creation_input_tokens or 0), cached, usage.output_tokens))


talk({"anthropic": Messages})
