// The lens agrees with JSON.parse on what is JSON and on every top-level value, and edits touch nothing else.
import fc from 'fast-check'
import t from 'tap'
import { BodyEdit, RequestBody } from '../../../core/bodies/body.ts'
import { Lens, LensError, maxDepth } from '../../../core/bodies/lens.ts'
import { codePoint } from '../../kit/code-point.ts'

const object = fc.dictionary(fc.string({ unit: 'grapheme' }), fc.jsonValue({ depthSize: 'small', maxDepth: 4 }), {
  maxKeys: 12
})

/** Puts white space where JSON allows it. */
function spaced(text: string, seed: number): string {
  let state = seed
  const space = (): string => [' ', '\n', '\t', '\r\n', ''][(state = (state * 1103515245 + 12345) >>> 0) % 5]!
  return text.replace(/("(?:[^"\\]|\\.)*")|([{}[\],:])/g, (_, string: string, mark: string) =>
    string ? string : `${space()}${mark}${space()}`
  )
}

t.test('every member of a valid object is found with the value that JSON.parse reads', async (t) => {
  fc.assert(
    fc.property(object, fc.nat(), (value, seed) => {
      const text = spaced(JSON.stringify(value), seed)
      const lens = new Lens(Buffer.from(text))
      const parsed = JSON.parse(text) as Record<string, unknown>
      t.strictSame([...lens.members.keys()].sort(), Object.keys(parsed).sort())
      for (const key of Object.keys(parsed))
        if (JSON.stringify(lens.json(key)) !== JSON.stringify(parsed[key])) return false
      return true
    }),
    { numRuns: 500 }
  )
})

t.test(
  'strings end where they do, however quotes, backslashes and other bytes lie in them and the body lies in memory',
  async () => {
    const piece = fc.oneof(
      fc.constantFrom('"', '\\', '\n', '!', '#', '¢', '\u2222', '""', '\\"'),
      fc.nat({ max: 200 }).map((length) => 'x'.repeat(length))
    )
    const text = fc.array(piece, { maxLength: 60 }).map((pieces) => pieces.join(''))
    fc.assert(
      fc.property(
        fc.array(text, { maxLength: 6 }),
        fc.nat({ max: 3 }),
        fc.constantFrom('', '"', '"x', 'x"'),
        (texts, offset, beyond) => {
          const json = Buffer.from(JSON.stringify({ texts, model: 'x' }))
          // Quotes beside the body are not its.
          const memory = Buffer.concat([Buffer.alloc(offset, '"'), json, Buffer.from(beyond)])
          const lens = new Lens(memory.subarray(offset, offset + json.length))
          return JSON.stringify(lens.json('texts')) === JSON.stringify(texts) && lens.string('model') === 'x'
        }
      ),
      { numRuns: 1000 }
    )
  }
)

t.test(
  'long strings end where they do, whatever stands where one stretch that is looked at meets the next',
  async (t) => {
    for (const at of [64 * 1024, 128 * 1024]) {
      for (let shift = -24; shift <= 40; shift++) {
        for (const crossing of ['"', '\\"', '\\\\"', '"\\', '""', '\\', '\\\\', '"'.repeat(20), '\\'.repeat(9)]) {
          const text = `"${'x'.repeat(at + shift)}${crossing}`
          const lens = new Lens(Buffer.from(JSON.stringify({ text, after: `${text}y`, model: 'x' })))
          if (lens.string('text') !== text || lens.string('after') !== `${text}y` || lens.string('model') !== 'x')
            t.fail(`${crossing} at ${at + shift}`)
          const cut = Buffer.from(`{"text":${JSON.stringify(text).slice(0, -1)}`)
          t.throws(() => new Lens(cut), LensError)
        }
      }
    }
  }
)

t.test('what a body holds is found wherever a stretch that is looked at ends', async (t) => {
  const value = {
    'a\\"b': [{ k: 'x"y\\', n: [-1.5e3, true] }, 'é'],
    model: 'demo',
    schlüssel: 'ü"',
    n: 12,
    max_completion_tokens: 256
  }
  const rest = JSON.stringify(value).slice(1)
  for (let length = 64 * 1024 - 200; length < 64 * 1024 + 20; length++) {
    for (const pad of ['x'.repeat(length), `${'x'.repeat(length - 3)}\\"`]) {
      const text = `{"pad":${JSON.stringify(pad)},${rest}`
      const lens = new Lens(Buffer.from(text))
      const read = Object.fromEntries([...lens.members.keys()].map((key) => [key, lens.json(key)]))
      if (JSON.stringify(read) !== text) t.fail(`with a string of ${length} before it`)
      t.throws(() => new Lens(Buffer.from(`${text.slice(0, -1)},"model":1}`)), { message: /"model" appears twice/ })
    }
  }
})

t.test('a string and a number are read as JSON.parse reads them', async () => {
  const scalar = fc.oneof(
    fc.string({ unit: codePoint }),
    fc.string(),
    fc.double(),
    fc.integer(),
    fc.maxSafeNat(),
    fc.constantFrom(-0, 1e21, 999999999999999, 1e15, Number.MAX_VALUE, 5e-324)
  )
  const written = scalar
    .map((value) => JSON.stringify(value))
    .chain((text) =>
      fc.constantFrom(
        text,
        text.replace(/^"a?/, '"\\u0061'),
        text.replace(/^(\d+)$/, '$1.0'),
        text.replace(/^(\d+)$/, '-$1')
      )
    )
  fc.assert(
    fc.property(written, (text) => {
      const lens = new Lens(Buffer.from(`{"a":1,"v":${text} }`))
      const value = JSON.parse(text) as unknown
      return (
        Object.is(lens.string('v'), typeof value === 'string' ? value : undefined) &&
        Object.is(lens.number('v'), typeof value === 'number' ? value : undefined)
      )
    }),
    { numRuns: 5000 }
  )
})

t.test('what is no single JSON object is refused with the place', async (t) => {
  const cases: [string, RegExp][] = [
    ['', /must begin with \{.*ends at byte 0/],
    ['[]', /must begin with \{ \(byte 0\)/],
    ['"x"', /must begin/],
    ['null', /must begin/],
    ['{"a":1,}', /key in double quotes \(byte 7\)/],
    ['{"a":1}{', /nothing after the object/],
    ["{'a':1}", /double quotes/],
    ['{"a":NaN}', /expected a value/],
    ['{"a":01}', /expected , or \}/],
    ['{"a":1.}', /no digits after its point/],
    ['{"a":1e}', /no digits in its exponent/],
    ['{"a":[1,2', /ends at byte/],
    ['{"a":[1,]}', /expected a value/],
    ['{"a":{"b":1,}}', /double quotes/],
    ['{"a":[}', /expected a value/],
    ['{"a":"x', /does not end/],
    ['{"a":"x\\"}', /does not end/],
    ['{"a" 1}', /expected : after a key/],
    ['{/* c */"a":1}', /double quotes/],
    ['{"model":"a","model":"b"}', /"model" appears twice \(byte 13\)/],
    ['{"model":"a","\\u006dodel":"b"}', /"model" appears twice/],
    ['{"m\\q":1}', /invalid escape \(byte 3\)/],
    ['{"m":"\\u00g0"}', /invalid escape/],
    ['{"m":"\\u00', /does not end.*ends at byte 10/],
    ['{"m":"a\nb"}', /control character.* \(byte 7\)/],
    ['{"m":["a\u0000"]}', /control character/],
    ['{"a":tru}', /expected a value \(byte 5\)/],
    ['{"a":-}', /expected a value \(byte 5\)/],
    ['{"a":{"b":1]}', /expected , or \} \(byte 11\)/],
    ['{"a":[1}', /expected , or \] \(byte 7\)/],
    ['{"a":1', /expected , or \} after a value: the body ends at byte 6/],
    [`{"a":${'['.repeat(maxDepth + 1)}`, /nested deeper/]
  ]
  for (const [text, message] of cases) t.throws(() => new Lens(Buffer.from(text)), { message }, text.slice(0, 40))
  t.doesNotThrow(
    () => new Lens(Buffer.from(`{"a":${'['.repeat(maxDepth)}${']'.repeat(maxDepth)}}`)),
    'the limit itself is fine'
  )
})

t.test('an escaped key name is the key it spells', async (t) => {
  const lens = new Lens(Buffer.from('{"\\u006d\\u006fdel":"x","str\\u0065am":true}'))
  t.equal(lens.string('model'), 'x')
  t.equal(lens.flag('stream'), true)
})

t.test('typed reads give nothing for other types', async (t) => {
  const lens = new Lens(Buffer.from('{"s":"a","n":1.5,"o":{},"b":false,"z":null}'))
  t.strictSame(
    [lens.string('s'), lens.string('n'), lens.string('o'), lens.string('none')],
    ['a', undefined, undefined, undefined]
  )
  t.strictSame(
    [lens.number('n'), lens.number('s'), lens.number('o'), lens.number('z')],
    [1.5, undefined, undefined, undefined]
  )
  t.strictSame(
    [lens.flag('b'), lens.flag('s'), lens.flag('z'), lens.flag('none'), lens.has('z'), lens.has('none')],
    [false, undefined, false, false, true, false]
  )
})

const pieces = (edit: BodyEdit): readonly Buffer[] => edit.render() as readonly Buffer[]

t.test('an edit replaces the named values and leaves every other byte', async (t) => {
  const text = '{ "a" : 1.0, "model":\n"old" ,"n":9007199254740993,"u":"\\u00e9","x":{"model":"inner"} }'
  const edit = new BodyEdit(RequestBody.json(Buffer.from(text)))
  edit.set('model', 'new')
  t.equal(Buffer.concat(pieces(edit)).toString(), text.replace('"old"', '"new"'))
  edit.setRaw('stream_options', '{"include_usage":true}')
  t.equal(
    Buffer.concat(pieces(edit)).toString(),
    text.replace('"old"', '"new"').replace('{', '{"stream_options":{"include_usage":true},')
  )
  t.equal(edit.original.bytes.toString(), text, "the client's bytes stay as they came")
  const untouched = new BodyEdit(RequestBody.json(Buffer.from(text)))
  t.strictSame(
    pieces(untouched).map((piece) => piece === untouched.original.bytes),
    [true],
    'no change, no copy'
  )
})

t.test('edits read back as the same object with the changes, for any object and any keys', async () => {
  fc.assert(
    fc.property(
      object,
      fc.dictionary(fc.string(), fc.jsonValue({ maxDepth: 2 }), { maxKeys: 4 }),
      fc.nat(),
      (value, changes, seed) => {
        const edit = new BodyEdit(RequestBody.json(Buffer.from(spaced(JSON.stringify(value), seed))))
        for (const [key, change] of Object.entries(changes)) edit.set(key, change)
        const wanted = new Map([
          ...Object.entries(JSON.parse(JSON.stringify(value)) as object),
          ...Object.entries(JSON.parse(JSON.stringify(changes)) as object)
        ])
        const got = new Map(Object.entries(JSON.parse(Buffer.concat(pieces(edit)).toString()) as object))
        return (
          got.size === wanted.size &&
          [...wanted].every(([key, item]) => JSON.stringify(got.get(key)) === JSON.stringify(item))
        )
      }
    ),
    { numRuns: 500 }
  )
})

t.test('a body must be UTF-8, a byte order mark is taken off', async (t) => {
  t.throws(() => RequestBody.json(Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d])), {
    code: 'invalid_json',
    message: /UTF-8/
  })
  t.throws(() => RequestBody.json(Buffer.from('{"model":"x"}', 'utf16le')), { code: 'invalid_json' })
  t.equal(RequestBody.json(Buffer.from('\ufeff{"model":"x"}')).bytes.toString(), '{"model":"x"}')
})

t.test('a body at rest shares its memory with nobody, and its members are found as before', async (t) => {
  for (const text of ['{"model":"x"}', '\ufeff{"model":"x"}', `{"model":"x","input":"${'y'.repeat(40_000)}"}`]) {
    const held = Buffer.allocUnsafe(Buffer.byteLength(text))
    held.write(text)
    const body = RequestBody.json(held)
    const edit = new BodyEdit(body)
    const kept = body.rest(held)
    t.equal(kept.length, held.length, 'as much of the memory for bodies is given back in the end')
    t.equal(kept === held, held.length > 32 * 1024, 'a large one stays where it is')
    if (kept !== held) held.fill(0)
    t.equal(body.bytes.toString(), text.replace('\ufeff', ''))
    t.equal(body.bytes.buffer, kept.buffer)
    t.equal(body.lens.string('model'), 'x')
    edit.set('model', 'other')
    t.match(Buffer.concat(edit.render() as Buffer[]).toString(), '"model":"other"')
  }
})
