"""OpenAI's library over responses that are kept, and in a realtime session."""
import json
import sys
import time
from typing import Any

from openai import NotFoundError, OpenAI

from talk import KEY, URL

client = OpenAI(base_url=f"{URL}/v1", websocket_base_url=f"{URL.replace('http', 'ws')}/v1", api_key=KEY, max_retries=0)


def directive(**members: Any) -> str:
    return f"Tell me. [[simulator {json.dumps(members)}]]"


def kept(model: str) -> dict[str, Any]:
    first = client.responses.create(model=model, input=directive(text="A dozen words that count as input later on."))
    second = client.responses.create(model=model, input="Go on.", previous_response_id=first.id)
    begun = client.responses.create(model=model, input=directive(text="Done.", queue_ms=10, work_ms=50, first_byte_ms=50), background=True)
    response = begun
    while response.status in ("queued", "in_progress"):
        time.sleep(0.02)
        response = client.responses.retrieve(begun.id)
    with client.responses.create(model=model, input=directive(text="One two three.", queue_ms=10, work_ms=50), background=True, stream=True) as stream:
        events = list(stream)
    again = list(client.responses.retrieve(events[0].response.id, stream=True, starting_after=2))
    called = client.responses.create(model=model, input=directive(tokens=50, **({"work_ms": 20_000} if model == "native" else {"first_byte_ms": 20_000})), background=True)
    cancelled = client.responses.cancel(called.id)
    client.responses.delete(first.id)
    try:
        client.responses.retrieve(first.id)
        gone = ""
    except NotFoundError as error:
        gone = error.message
    return {
        "grew": second.usage.input_tokens > first.usage.input_tokens, "previous": second.previous_response_id == first.id, "text": response.output_text,
        "items": [item.type for item in client.responses.input_items.list(second.id).data], "types": [event.type for event in events],
        "again": [event.sequence_number for event in again] == [event.sequence_number for event in events[3:]], "cancelled": cancelled.status, "gone": gone,
    }


def spoken(model: str) -> dict[str, Any]:
    with client.realtime.connect(model=model) as connection:
        connection.session.update(session={"type": "realtime", "output_modalities": ["text"], "instructions": "Be brief."})
        connection.conversation.item.create(item={"type": "message", "role": "user", "content": [{"type": "input_text", "text": directive(text="Hello from here")}]})
        connection.response.create()
        text = ""
        for event in connection:
            if event.type == "response.output_text.delta":
                text += event.delta
            elif event.type == "response.done":
                return {"text": text, "status": event.response.status, "tokens": event.response.usage.total_tokens}
    raise RuntimeError("the session ended")


json.dump({"native": kept("native"), "own": kept("own"), "realtime": spoken("native")}, sys.stdout)
