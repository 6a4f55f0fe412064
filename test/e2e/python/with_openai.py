"""OpenAI's library, over chat completions and over Responses."""
import json
from typing import Any

from openai import LengthFinishReasonError, OpenAI

from talk import DESCRIPTION, KEY, LONGEST, NAME, SCHEMA, URL, said, talk

client = OpenAI(base_url=f"{URL}/v1", api_key=KEY, max_retries=0)


class Chat:
    def __init__(self, model: str, streamed: bool) -> None:
        self.model, self.streamed = model, streamed
        self.history: list[Any] = [{"role": "system", "content": "Be brief."}]

    def ask(self, text: str) -> dict[str, Any]:
        self.history.append({"role": "user", "content": text})
        return self.turn()

    def answer(self, results: list[str]) -> dict[str, Any]:
        calls = self.history[-1]["tool_calls"]
        self.history += [{"role": "tool", "tool_call_id": call["id"], "content": result} for call, result in zip(calls, results)]
        return self.turn()

    def turn(self) -> dict[str, Any]:
        tools = [{"type": "function", "function": {"name": NAME, "description": DESCRIPTION, "parameters": SCHEMA}}]
        body: Any = {"model": self.model, "messages": self.history, "tools": tools, "max_completion_tokens": LONGEST, "reasoning_effort": "low"}
        if self.streamed:
            thoughts = ""
            with client.chat.completions.stream(**body, stream_options={"include_usage": True}) as stream:
                for event in stream:
                    if event.type == "chunk" and event.chunk.choices:
                        thoughts += getattr(event.chunk.choices[0].delta, "reasoning_content", None) or ""
                try:
                    completion = stream.get_final_completion()
                except LengthFinishReasonError as error:
                    completion = error.completion
        else:
            completion = client.chat.completions.create(**body)
            thoughts = getattr(completion.choices[0].message, "reasoning_content", None) or ""
        choice, usage = completion.choices[0], completion.usage
        self.history.append(choice.message.to_dict())
        calls = [{"name": call.function.name, "input": json.loads(call.function.arguments)} for call in choice.message.tool_calls or []]
        ended = {"stop": "stop", "tool_calls": "calls", "length": "length"}[choice.finish_reason]
        cached = (usage.prompt_tokens_details and usage.prompt_tokens_details.cached_tokens) or 0
        return said(choice.message.content or "", thoughts, calls, ended, (usage.prompt_tokens, cached, usage.completion_tokens))


class Responses:
    def __init__(self, model: str, streamed: bool) -> None:
        self.model, self.streamed = model, streamed
        self.history: list[Any] = []
        self.calls: list[Any] = []

    def ask(self, text: str) -> dict[str, Any]:
        self.history.append({"role": "user", "content": text})
        return self.turn()

    def answer(self, results: list[str]) -> dict[str, Any]:
        self.history += [{"type": "function_call_output", "call_id": call.call_id, "output": result} for call, result in zip(self.calls, results)]
        return self.turn()

    def turn(self) -> dict[str, Any]:
        body: Any = {
            "model": self.model, "instructions": "Be brief.", "input": self.history, "max_output_tokens": LONGEST, "store": False,
            "reasoning": {"effort": "low", "summary": "auto"}, "include": ["reasoning.encrypted_content"],
            "tools": [{"type": "function", "name": NAME, "description": DESCRIPTION, "parameters": SCHEMA, "strict": False}],
        }
        if self.streamed:
            with client.responses.stream(**body) as stream:
                # The library's own way to the response knows no other end than a completed one.
                *_, last = stream
                response = last.response
        else:
            response = client.responses.create(**body)
        self.history += [item.to_dict() for item in response.output]
        self.calls = [item for item in response.output if item.type == "function_call"]
        thoughts = "".join(part.text for item in response.output if item.type == "reasoning" for part in item.summary)
        ended = "length" if response.status == "incomplete" else "calls" if self.calls else "stop"
        calls = [{"name": call.name, "input": json.loads(call.arguments)} for call in self.calls]
        usage = response.usage
        return said(response.output_text, thoughts, calls, ended, (usage.input_tokens, usage.input_tokens_details.cached_tokens, usage.output_tokens))


talk({"openai-chat": Chat, "openai-responses": Responses})
