// JSON is parsed as it is written, also where V8 reads a key wrong that has an escape in it.
import assert from 'node:assert/strict'
import fc from 'fast-check'
import t from 'tap'
import { hasEscapedKey, parse, parseStrictly } from '../../../core/bodies/parse.ts'
import { Lens } from '../../../core/bodies/lens.ts'
import { Message } from '../../../core/contract/contract.ts'
import { parseJson } from '../../../core/protocols/canonical/json.ts'
import { codePoint } from '../../kit/code-point.ts'

/** What makes `JSON.parse` misread objects, what it misreads then, and what is to be read. */
const misread: readonly (readonly [poison: string, text: string, expected: object])[] = [
  ['{"h":[],"\\\\":0}', '{"h":1,"\\"":2}', { h: 1, '"': 2 }],
  ['{"i":[],"\\\\":0}', '{"i":1,"\\u0000":2}', { i: 1, '\0': 2 }],
  ['{"j":[],"\\\\u":0}', '{"j":1,"\\u540d\\u5b57":2}', { j: 1, 名字: 2 }],
  [
    '{"model":"x","messages":[],"\\\\u006dax_t":0}',
    '{"model":"x","messages":[],"\\u006dax_tokens":2}',
    { model: 'x', messages: [], max_tokens: 2 }
  ]
]

t.test('a key is read as it is written, whatever was parsed before', async (t) => {
  for (const [poison, text, expected] of misread) {
    for (let times = 0; times < 3; times++) JSON.parse(poison)
    t.strictSame(parse(text), expected, text)
    t.strictSame(parseJson(text), expected)
    t.strictSame(new Message('json', Buffer.from(text)).json(), expected)
    t.strictSame(new Lens(Buffer.from(`{"a":${text}}`)).json('a'), expected)
    const large = new Message('json', Buffer.from(text.replace('{', `{"pad":"${'x'.repeat(70_000)}",`)))
    t.strictSame(Object.keys(large.shallow() as object), ['pad', ...Object.keys(expected)])
  }
})

const text = fc.oneof(
  fc.string({ unit: codePoint, maxLength: 6 }),
  fc.constantFrom('__proto__', '\\', '"', '\\u0', 'a', '', '\ud800', '{"', ',"')
)
const { value } = fc.letrec((tie) => ({
  value: fc.oneof(
    { maxDepth: 4 },
    fc.oneof(text, fc.integer(), fc.double({ noNaN: true, noDefaultInfinity: true }), fc.boolean(), fc.constant(null)),
    fc.array(tie('value'), { maxLength: 4 }),
    fc.dictionary(text, tie('value'), { maxKeys: 4, noNullPrototype: true })
  )
}))

/** JSON with all or none of its strings in escapes. */
function written(value: unknown, escaped: boolean, space: number): string {
  const json = JSON.stringify(value, null, space)
  if (!escaped) return json
  return json.replace(/"(?:[^"\\]|\\.)*"/g, (string) => {
    const units = [...Array((JSON.parse(string) as string).length).keys()]
    const code = (at: number): string => (JSON.parse(string) as string).charCodeAt(at).toString(16).padStart(4, '0')
    return `"${units.map((at) => `\\u${code(at)}`).join('')}"`
  })
}

t.test('what is written is read, with escapes and without', async () => {
  fc.assert(
    fc.property(value, fc.boolean(), fc.constantFrom(0, 1), (value, escaped, space) => {
      const json = written(value, escaped, space)
      for (const read of [parse, parseStrictly])
        assert.equal(written(read(json), false, 0), JSON.stringify(value), json)
    }),
    { numRuns: 2000 }
  )
})

t.test('what has no escape in a key is left to JSON.parse', async (t) => {
  for (const [json, escaped] of [
    ['{"a":"\\n"}', false],
    ['{"a":"{\\"b\\\\n\\":1}"}', false],
    ['["\\n","\\t"]', false],
    ['{"a":["x","\\n"],"b":1}', false],
    ['{"a":"x\\\\" , "b" : 1}', false],
    ['{"\\n":1}', true],
    ['{"a":1, "b\\u0063" :1}', true],
    ['[{"a":"\\n"},{"x\\n":1}]', true],
    ['{"a\\', false],
    ['{"a', false]
  ] as const)
    t.equal(hasEscapedKey(json), escaped, json)
  t.throws(() => parse('{"\\n":1'), SyntaxError)
  t.throws(() => parse('{"\\n":01}'), SyntaxError)
})
