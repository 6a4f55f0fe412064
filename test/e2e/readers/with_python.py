"""Reads forms as Python's servers do: a line of JSON for each form in, what each reader took for its fields out."""

import asyncio
import base64
import email
import email.policy
import io
import json
import sys

import django
from django.conf import settings
from django.test import RequestFactory
from starlette.datastructures import UploadFile
from starlette.requests import Request as StarletteRequest
from werkzeug.formparser import FormDataParser
from werkzeug.http import parse_options_header

settings.configure(ALLOWED_HOSTS=["*"], DEFAULT_CHARSET="utf-8")
django.setup()


def with_werkzeug(kind, body):
    mime_type, options = parse_options_header(kind)
    _, form, _ = FormDataParser(silent=False).parse(io.BytesIO(body), mime_type, len(body), options)
    return form.items(multi=True)


def with_django(kind, body):
    form = RequestFactory().generic("POST", "/", body, content_type=kind).POST
    return ((name, value) for name, values in form.lists() for value in values)


def with_starlette(kind, body):
    async def receive():
        return {"type": "http.request", "body": body, "more_body": False}

    async def read():
        headers = [(b"content-type", kind.encode("latin-1"))]
        form = await StarletteRequest({"type": "http", "method": "POST", "headers": headers}, receive).form()
        return [(name, value) for name, value in form.multi_items() if not isinstance(value, UploadFile)]

    return asyncio.run(read())


def with_email(policy):
    def read(kind, body):
        message = email.message_from_bytes(b"Content-Type: " + kind.encode("latin-1") + b"\r\n\r\n" + body, policy=policy)
        fields = []
        for part in message.walk():
            name = part.get_param("name", header="content-disposition")
            if part.is_multipart() or name is None or part.get_filename() is not None:
                continue
            name = email.utils.collapse_rfc2231_value(name)
            charset = part.get_content_charset("utf-8")
            fields.append((name, part.get_payload(decode=True).decode(charset)))
        return fields

    return read


readers = {
    "werkzeug": with_werkzeug,
    "Django": with_django,
    "Starlette": with_starlette,
    "Python's email": with_email(email.policy.HTTP),
    "Python's email as of old": with_email(email.policy.compat32),
}

for line in sys.stdin:
    asked = json.loads(line)
    form = base64.b64decode(asked["body"])
    seen = {}
    for reader, read in readers.items():
        try:
            seen[reader] = [[str(name), str(value)] for name, value in read(asked["type"], form)]
        except Exception:  # It refuses the form, as it may.
            seen[reader] = None
    print(json.dumps(seen), flush=True)
