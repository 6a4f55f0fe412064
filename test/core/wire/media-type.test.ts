// What a media type says of a body.
import t from 'tap'
import { isJson } from '../../../core/wire/media-type.ts'

t.test('JSON is known by its type, whatever stands behind it', (t) => {
  for (const type of [
    'application/json',
    'Application/JSON',
    ' application/json ; charset=utf-8',
    'application/problem+json',
    'application/vnd.api+json;v=1',
    'text/x+json'
  ])
    t.ok(isJson(type), type)
  for (const type of [
    '',
    'json',
    'text/json-seq',
    'application/json-seq',
    'application/jsonl',
    'application/x-json',
    'text/plain; a=application/json',
    '+json',
    'application/+json'
  ])
    t.notOk(isJson(type), type)
  t.end()
})
