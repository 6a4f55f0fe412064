"""Google's library."""
from typing import Any

from google import genai
from google.genai import types

from talk import DESCRIPTION, KEY, LONGEST, NAME, SCHEMA, URL, said, talk

client = genai.Client(api_key=KEY, http_options=types.HttpOptions(base_url=URL))


class Contents:
    def __init__(self, model: str, streamed: bool) -> None:
        self.model, self.streamed = model, streamed
        self.history: list[types.Content] = []

    def ask(self, text: str) -> dict[str, Any]:
        self.history.append(types.Content(role="user", parts=[types.Part(text=text)]))
        return self.turn()

    def answer(self, results: list[str]) -> dict[str, Any]:
        calls = [part.function_call for part in self.history[-1].parts or [] if part.function_call]
        responses = [types.FunctionResponse(id=call.id, name=call.name, response={"output": result}) for call, result in zip(calls, results)]
        self.history.append(types.Content(role="user", parts=[types.Part(function_response=response) for response in responses]))
        return self.turn()

    def turn(self) -> dict[str, Any]:
        config = types.GenerateContentConfig(
            system_instruction="Be brief.", max_output_tokens=LONGEST, thinking_config=types.ThinkingConfig(include_thoughts=True),
            tools=[types.Tool(function_declarations=[types.FunctionDeclaration(name=NAME, description=DESCRIPTION, parameters_json_schema=SCHEMA)])],
        )
        request: Any = {"model": self.model, "contents": self.history, "config": config}
        answers = list(client.models.generate_content_stream(**request)) if self.streamed else [client.models.generate_content(**request)]
        parts = [part for answer in answers for part in (answer.candidates[0].content and answer.candidates[0].content.parts) or []]
        self.history.append(types.Content(role="model", parts=parts))
        text = "".join(part.text or "" for part in parts if not part.thought)
        thoughts = "".join(part.text or "" for part in parts if part.thought)
        calls = [{"name": part.function_call.name, "input": part.function_call.args} for part in parts if part.function_call]
        reason = answers[-1].candidates[0].finish_reason
        ended = "calls" if calls else {types.FinishReason.STOP: "stop", types.FinishReason.MAX_TOKENS: "length"}[reason]
        usage = answers[-1].usage_metadata
        made = (usage.candidates_token_count or 0) + (usage.thoughts_token_count or 0)
        return said(text, thoughts, calls, ended, (usage.prompt_token_count, usage.cached_content_token_count or 0, made))


talk({"gemini": Contents})
