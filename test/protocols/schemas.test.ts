// Schemas in the forms that single vendors demand: closed, strict, and in Google's subset of OpenAPI.
import t from 'tap'
import { closeSchema, hasMaps } from '../../core/protocols/canonical/closed-schema.ts'
import { isStrict, madeStrict, nameless } from '../../core/protocols/canonical/strict.ts'
import { fromGemini } from '../../core/protocols/gemini/schema-decode.ts'
import { toGemini } from '../../core/protocols/gemini/schema-encode.ts'

type Json = any

const empty = { type: 'object', properties: {} }
const shut = { ...empty, additionalProperties: false }
const map = { type: 'object', additionalProperties: { type: 'string' } }

/** A schema inside of so many others, each of which holds the next in the way that `around` says. */
const nested = (depth: number, around: (inner: Json) => Json, inner: Json): Json =>
  depth === 0 ? inner : nested(depth - 1, around, around(inner))
const ways: Readonly<Record<string, (inner: Json) => Json>> = {
  items: (items) => ({ items }),
  anyOf: (inner) => ({ anyOf: [inner] }),
  oneOf: (inner) => ({ oneOf: [inner] }),
  properties: (a) => ({ type: 'string', $defs: { a } })
}

t.test('every object of a schema is closed, wherever it stands, up to a depth of 100', async (t) => {
  for (const schema of [
    { type: 'object' },
    { properties: {} },
    { type: ['object', 'null'] },
    { type: 'object', additionalProperties: map }
  ]) {
    const { additionalProperties: _open, ...rest } = schema as Json
    t.strictSame(closeSchema(schema), { ...rest, additionalProperties: false })
  }
  for (const schema of [
    { type: 'string' },
    { type: ['string'] },
    { type: 'array', items: true },
    { anyOf: 'none', properties: undefined },
    { $defs: 5, if: true },
    { enum: [{ type: 'object' }], const: { type: 'object' }, default: { type: 'object', oneOf: [] } }
  ])
    t.strictSame(closeSchema(schema), schema)
  t.strictSame(closeSchema({ $ref: '#/a', additionalProperties: true }), { $ref: '#/a' })
  for (const key of ['items', 'not', 'if', 'then', 'else', 'contains', 'additionalItems'])
    t.strictSame(closeSchema({ [key]: empty }), { [key]: shut })
  for (const key of ['anyOf', 'allOf', 'prefixItems', 'items'])
    t.strictSame(closeSchema({ [key]: [empty, true] }), { [key]: [shut, true] })
  for (const key of ['$defs', 'definitions']) t.strictSame(closeSchema({ [key]: { a: empty } }), { [key]: { a: shut } })
  t.strictSame(closeSchema({ oneOf: [empty] }), { anyOf: [shut] })
  t.strictSame(closeSchema({ anyOf: [], oneOf: [empty] }), { anyOf: [], oneOf: [shut] }, 'where that is free')
  for (const around of Object.values(ways)) {
    t.match(JSON.stringify(closeSchema(nested(100, around, empty))), /false/)
    t.notMatch(JSON.stringify(closeSchema(nested(101, around, empty))), /false/)
  }
})

t.test('what a closed schema cannot demand is told in its description', async (t) => {
  t.strictSame(closeSchema({ type: 'integer', minimum: 1, maximum: 5 }), {
    type: 'integer',
    description: '(minimum: 1, maximum: 5)'
  })
  t.strictSame(closeSchema({ type: 'string', pattern: 'a', description: 'Name.' }), {
    type: 'string',
    description: 'Name. (pattern: "a")'
  })
  t.strictSame(closeSchema({ minItems: 2, description: 5 }), { description: '(minItems: 2)' })
})

t.test('a schema has maps where an object may have members that it does not name', async (t) => {
  const yes = [
    map,
    { patternProperties: {} },
    { type: 'object' },
    { type: ['null', 'object'] },
    { items: map },
    { items: [empty, map] },
    { anyOf: [empty, map] },
    { properties: { a: empty, b: map } },
    { $defs: { a: map } }
  ]
  const no = [
    empty,
    { type: 'string' },
    { type: ['string'] },
    { type: 'object', anyOf: [empty] },
    { type: 'object', $ref: '#/$defs/a' },
    { type: 'object', additionalProperties: false },
    { properties: 'none', items: true }
  ]
  for (const schema of yes) t.ok(hasMaps(schema), JSON.stringify(schema))
  for (const schema of no) t.notOk(hasMaps(schema), JSON.stringify(schema))
  for (const around of Object.values(ways)) {
    t.ok(hasMaps(nested(100, around, map)))
    t.notOk(hasMaps(nested(101, around, map)))
  }
})

t.test('a schema is strict when each of its objects demands all members and allows no others', async (t) => {
  const a = { a: { type: 'string' } }
  const strict = { type: 'object', properties: a, required: ['a'], additionalProperties: false }
  t.ok(isStrict(strict))
  t.ok(isStrict(shut))
  const { required: _required, ...optional } = strict
  for (const schema of [empty, optional, { ...strict, required: 'a' }, { ...strict, type: 'array' }])
    t.notOk(isStrict(schema), JSON.stringify(schema))
  for (const inner of [empty, { properties: a }, { type: ['null', 'object'] }])
    for (const around of [
      { items: inner },
      { anyOf: [inner] },
      { prefixItems: [shut, inner] },
      { $defs: { b: inner } },
      { definitions: { b: inner } }
    ])
      t.notOk(isStrict({ ...strict, ...around }), JSON.stringify(around))
  t.ok(isStrict({ ...strict, items: { type: ['null', 'string'] }, anyOf: [shut] }))
  for (const around of [(items: Json): Json => ({ items }), ways['anyOf']!]) {
    const deep = (depth: number): Json => ({ ...shut, ...around(nested(depth - 1, around, { type: 'string' })) })
    t.ok(isStrict(deep(32)))
    t.notOk(isStrict(deep(33)))
    t.ok(madeStrict(deep(32)))
    t.equal(madeStrict(deep(33)), undefined)
  }
})

t.test('a schema is made strict where that changes nothing of what it allows', async (t) => {
  t.strictSame(
    madeStrict({
      ...empty,
      default: { properties: {} },
      $defs: { a: empty, b: { type: 'string', enum: ['x', null] } },
      definitions: { c: empty },
      items: empty,
      anyOf: [empty, { type: 'null' }, true],
      prefixItems: [empty]
    }),
    {
      ...shut,
      default: { properties: {} },
      $defs: { a: shut, b: { type: 'string', enum: ['x', null] } },
      definitions: { c: shut },
      items: shut,
      anyOf: [shut, { type: 'null' }, true],
      prefixItems: [shut]
    }
  )
  for (const schema of [
    { type: 'object' },
    { type: 'array', items: empty },
    { ...empty, additionalProperties: true },
    { ...empty, properties: { a: {} } },
    { ...empty, items: { type: 'object' } }
  ])
    t.equal(madeStrict(schema), undefined, JSON.stringify(schema))
  t.strictSame(madeStrict({ ...shut, properties: 5 }), { ...shut, properties: {} })
  t.match(nameless(empty), { name: 'output', schema: shut, strict: true })
  t.match(nameless(map), { schema: map, strict: false })
})

const written = (schema: Json, more: Json = {}): Json => {
  const { properties } = toGemini({ properties: { a: schema }, ...more }).schema as Json
  return properties.a
}
const lost = (schema: Json): readonly string[] => toGemini({ properties: { a: schema } }).lost
const single = ['STRING', 'NUMBER', 'BOOLEAN', 'OBJECT'].map((type) => ({ type }))
const anything = { anyOf: [...single, { type: 'ARRAY', items: { anyOf: single } }] }

t.test('Gemini is told of a function its members, and no schema where it has none', async (t) => {
  for (const schema of [undefined, {}, { type: 'object' }, { properties: {} }, { type: 'object', properties: 5 }])
    t.strictSame(toGemini(schema as Json), { schema: undefined, lost: [] })
  t.strictSame(toGemini({ properties: { a: { type: 'string' }, b: 5 }, required: ['b', 'c', 'a'] }), {
    schema: { type: 'OBJECT', properties: { a: { type: 'STRING' }, b: anything }, required: ['b', 'a'] },
    lost: []
  })
  for (const required of [[], ['z'], 'a', undefined])
    t.strictSame(toGemini({ properties: { a: { type: 'string' } }, required } as Json).schema, {
      type: 'OBJECT',
      properties: { a: { type: 'STRING' } }
    })
})

t.test('keywords that Gemini has are carried, and others told in words or named as lost', async (t) => {
  const own = { title: 't', description: 'd', default: 5, minimum: 1, maximum: 9 }
  t.strictSame(written({ type: 'integer', ...own }), { type: 'INTEGER', ...own })
  const idle = ['$schema', '$id', '$comment', 'examples', 'readOnly', 'writeOnly', 'deprecated', '$anchor', 'required']
  for (const key of [...idle, '$defs', 'definitions']) {
    t.strictSame(written({ type: 'string', [key]: true }), { type: 'STRING' })
    t.strictSame(lost({ type: 'string', [key]: true }), [])
  }
  t.strictSame(written({ type: 'object', additionalProperties: false }), { type: 'OBJECT' })
  t.strictSame(lost({ type: 'object', additionalProperties: false }), [])
  t.strictSame(lost({ type: 'string', other: 'enum', more: 2 }), ['other', 'more'])
  t.strictSame(written({ type: 'string', other: 'enum' }), { type: 'STRING' })
  t.strictSame(written({ type: 'object', additionalProperties: { type: 'string' } }), {
    type: 'OBJECT',
    description: 'It has members of any name, each of this schema: {"type":"string"}.'
  })
  t.strictSame(written({ description: 'D.', patternProperties: { a: {} } }), {
    type: 'OBJECT',
    description: 'D. Its members have names like these: {"a":{}}.'
  })
  const long = written({ type: 'object', additionalProperties: { const: 'x'.repeat(3000) } }).description as string
  t.equal(long.length, 'It has members of any name, each of this schema: .'.length + 2000)
  for (const [type, format] of Object.entries({
    string: ['enum', 'date-time'],
    number: ['float', 'double'],
    integer: ['int32', 'int64']
  }))
    for (const one of format) t.strictSame(written({ type, format: one }), { type: type.toUpperCase(), format: one })
  for (const other of [
    { type: 'string', format: 'email' },
    { type: 'string', format: 5 },
    { type: 'boolean', format: 'enum' }
  ]) {
    t.equal(written(other)['format'], undefined)
    t.strictSame(lost(other), ['format'])
  }
  const open = { type: 'integer', exclusiveMinimum: 1.5, exclusiveMaximum: 8.5 }
  t.strictSame(written(open), { type: 'INTEGER', minimum: 2, maximum: 8 })
  t.strictSame(written({ ...open, exclusiveMinimum: 1, exclusiveMaximum: 8 }), {
    type: 'INTEGER',
    minimum: 2,
    maximum: 7
  })
  for (const other of [
    { ...open, type: 'number' },
    { type: 'integer', exclusiveMinimum: true, exclusiveMaximum: false }
  ])
    t.strictSame(lost(other), ['exclusiveMinimum', 'exclusiveMaximum'])
})

t.test('values that are listed are an enum of Gemini where they are words, and told in words otherwise', async (t) => {
  t.strictSame(written({ enum: ['a', 'b'] }), { type: 'STRING', enum: ['a', 'b'] })
  t.strictSame(written({ type: 'string', enum: ['a', null] }), { type: 'STRING', enum: ['a'] })
  t.strictSame(written({ const: 'a' }), { type: 'STRING', enum: ['a'] })
  t.strictSame(written({ const: ['a'] }), { type: 'STRING', description: 'One of [["a"]].' })
  t.strictSame(written({ enum: 'a' }), { type: 'STRING', enum: ['a'] })
  t.strictSame(written({ type: 'string', enum: ['a', ''] }), { type: 'STRING', description: 'One of ["a",""].' })
  t.strictSame(written({ type: 'string', enum: ['a', 1] }), { type: 'STRING', description: 'One of ["a",1].' })
  t.strictSame(written({ type: 'integer', enum: ['a'] }), { type: 'INTEGER', description: 'One of ["a"].' })
  t.strictSame(written({ enum: [1, 2] }), { type: 'NUMBER', description: 'One of [1,2].' })
  t.strictSame(written({ enum: [true] }), { type: 'BOOLEAN', description: 'One of [true].' })
  t.strictSame(written({ description: 'D.', const: 5 }), { description: 'D. One of [5].', type: 'NUMBER' })
})

t.test('a value of several types is one of alternatives to Gemini, each with the keywords of its type', async (t) => {
  t.strictSame(written({ type: ['string', 'null'] }), { type: 'STRING', nullable: true })
  t.strictSame(written({ type: 'string', nullable: true }), { type: 'STRING', nullable: true })
  t.strictSame(written({ type: 'string', nullable: 'yes' }), { type: 'STRING' })
  t.strictSame(written({ type: 'null' }), { type: 'STRING', nullable: true })
  t.strictSame(written({ type: [5, 'NUMBER'] }), { type: 'NUMBER' })
  const all = {
    type: ['object', 'array', 'string', 'null'],
    title: 't',
    description: 'd',
    anyOf: [{ type: 'number' }],
    properties: { b: { type: 'string' } },
    minProperties: 1,
    items: { type: 'number' },
    minItems: 2,
    minLength: 3
  }
  t.strictSame(written(all), {
    nullable: true,
    title: 't',
    description: 'd',
    anyOf: [
      { type: 'OBJECT', properties: { b: { type: 'STRING' } }, minProperties: 1 },
      { type: 'ARRAY', items: { type: 'NUMBER' }, minItems: 2 },
      { type: 'STRING', minLength: 3 }
    ]
  })
  for (const [keyword, type] of [
    ['minProperties', 'OBJECT'],
    ['minItems', 'ARRAY'],
    ['minLength', 'STRING']
  ] as const)
    t.match(written({ [keyword]: 1 }), { type, [keyword]: 1 }, `what has ${keyword} has a type`)
  t.strictSame(written({ type: 'array' }), { type: 'ARRAY', items: anything })
  t.strictSame(written({ type: 'array', items: 5 }), { type: 'ARRAY', items: anything })
  t.strictSame(written({ description: 'd' }), { description: 'd', ...anything })
})

t.test('of alternatives Gemini is told those that are not null, and one alone is the schema', async (t) => {
  const two = [{ type: 'string' }, { type: 'number' }]
  for (const key of ['anyOf', 'oneOf'])
    t.strictSame(written({ [key]: two }), { anyOf: [{ type: 'STRING' }, { type: 'NUMBER' }] })
  t.strictSame(written({ anyOf: two, oneOf: [{ type: 'boolean' }] }).anyOf.length, 2)
  t.strictSame(written({ type: 'object', anyOf: [...two, { type: 'null' }] }), {
    nullable: true,
    anyOf: [{ type: 'STRING' }, { type: 'NUMBER' }]
  })
  const one = [{ type: 'string', description: 'inner' }, { type: 'null' }]
  t.strictSame(written({ anyOf: one }), { nullable: true, type: 'STRING', description: 'inner' })
  t.strictSame(written({ description: 'outer', anyOf: one }), {
    description: 'outer',
    nullable: true,
    type: 'STRING'
  })
  t.strictSame(written({ anyOf: [{ type: 'null' }] }), { nullable: true, ...anything })
  t.strictSame(written({ type: 'string', anyOf: 5 }), { type: 'STRING' })
})

t.test(
  'references and allOf are put into the schema for Gemini, and what leads back to itself may be anything',
  async (t) => {
    const root = {
      $defs: {
        text: { type: 'string', description: 'd', minLength: 1 },
        'a/b~c': { $ref: '#/$defs/text', minLength: 2 },
        loop: { type: 'object', properties: { next: { $ref: '#/$defs/loop' } } },
        ring: { properties: { next: { allOf: [{ $ref: '#/$defs/ring' }, { description: 'd' }] } } }
      }
    }
    const text = { type: 'STRING', description: 'd' }
    t.strictSame(written({ $ref: '#/$defs/text' }, root), { ...text, minLength: 1 })
    t.strictSame(written({ $ref: '#/$defs/text', description: 'own' }, root), {
      ...text,
      description: 'own',
      minLength: 1
    })
    t.strictSame(written({ $ref: '#/$defs/a~1b~0c' }, root), { ...text, minLength: 2 })
    t.strictSame(written({ $ref: '#/$defs/none' }, root), anything)
    for (const $ref of ['https://a.example/s', 'x/$defs/text', '#n'])
      t.strictSame(written({ $ref }, root), anything, $ref)
    t.strictSame(written({ $ref: 5, type: 'string' }, root), { type: 'STRING' })
    t.strictSame(written({ $ref: '#/$defs/loop' }, root), { type: 'OBJECT', properties: { next: { type: 'OBJECT' } } })
    t.strictSame(toGemini({ properties: { a: { $ref: '#/$defs/loop' } }, ...root }).lost, ['$ref'])
    t.strictSame(written({ allOf: [{ $ref: '#/$defs/ring' }] }, root), {
      type: 'OBJECT',
      properties: { next: { description: 'd', ...anything } }
    })
    const merged = written(
      {
        title: 'own',
        properties: { x: { type: 'string' } },
        required: ['x'],
        allOf: [
          { $ref: '#/$defs/text' },
          {
            title: 'other',
            type: 'object',
            properties: { x: { type: 'number' }, y: { type: 'number' } },
            required: ['y', 'x']
          }
        ]
      },
      root
    )
    t.strictSame(merged.properties, { y: { type: 'NUMBER' }, x: { type: 'STRING' } })
    t.strictSame([merged.title, merged.required], ['own', ['x', 'y']])
    t.strictSame(written({ allOf: [{ $ref: '#/$defs/text' }, 5] }, root), { ...text, minLength: 1 })
    t.strictSame(written({ allOf: [{ properties: { b: { type: 'string' } }, required: 'b' }] }), {
      type: 'OBJECT',
      properties: { b: { type: 'STRING' } }
    })
    t.strictSame(written({ allOf: 5, type: 'string' }), { type: 'STRING' })
    t.strictSame(lost({ allOf: 5, type: 'string' }), [])
    t.strictSame(written({ allOf: [{ minLength: 1 }, { minLength: 2, required: 5 }] }), {
      type: 'STRING',
      minLength: 1
    })
  }
)

t.test('a schema for Gemini has a depth of 32 and 2000 schemas at most', async (t) => {
  const deep = (depth: number): Json => nested(depth, (items) => ({ type: 'array', items }), { type: 'string' })
  t.match(JSON.stringify(written(deep(31))), /STRING/)
  t.strictSame(lost(deep(31)), [])
  t.notMatch(JSON.stringify(written(deep(32))), /STRING/)
  t.strictSame(lost(deep(32)), ['$ref'])
  for (const around of [ways['anyOf']!, (b: Json): Json => ({ type: 'object', properties: { b } })]) {
    t.strictSame(lost(nested(31, around, { type: 'string' })), [])
    t.strictSame(lost(nested(32, around, { type: 'string' })), ['$ref'])
  }
  const wide = (count: number): Json => ({
    properties: Object.fromEntries(Array.from({ length: count }, (_, at) => [`p${at}`, { type: 'string' }]))
  })
  t.strictSame(toGemini(wide(1999)).lost, [])
  t.strictSame(toGemini(wide(2000)).lost, ['$ref'])
})

t.test('a list with a schema for each place is one of any of them to Gemini, with the order in words', async (t) => {
  const [text, number] = [{ type: 'string' }, { type: 'number' }]
  const items = { anyOf: [{ type: 'STRING' }, { type: 'NUMBER' }] }
  const description = `Its items are, in this order: ${JSON.stringify([text, number])}.`
  const two = { type: 'ARRAY', description, items }
  t.strictSame(written({ items: [text, number] }), two)
  t.strictSame(written({ prefixItems: [text, number] }), two)
  t.strictSame(written({ prefixItems: [text, number], description: 'D.' }), {
    ...two,
    description: `D. ${description}`
  })
  for (const closing of [
    { items: [text, number], additionalItems: false },
    { prefixItems: [text, number], items: false }
  ])
    t.strictSame(written(closing), { ...two, maxItems: 2 })
  t.equal(written({ prefixItems: [text, number], items: false, maxItems: 1 })['maxItems'], 1)
  t.strictSame(written({ items: [text, text] })['items'], { type: 'STRING' })
  t.strictSame(written({ prefixItems: [text], items: number })['items'], items)
  t.strictSame(written({ items: [text], additionalItems: number })['items'], items)
  t.strictSame(written({ type: 'array', items: [], prefixItems: [] })['items'], anything)
  const { length } = written({ items: [{ const: 'x'.repeat(3000) }] })['description'] as string
  t.equal(length, 'Its items are, in this order: .'.length + 2000)
})

t.test('a schema of Gemini is read up to a depth of 100, and what it does not know is left as it is', async (t) => {
  t.strictSame(fromGemini({ type: 'STRING', nullable: true, minLength: '2' }), {
    type: ['string', 'null'],
    minLength: 2
  })
  t.strictSame(fromGemini({ type: 5, items: 5, anyOf: 5, properties: 5, other: { type: 'STRING' } }), {
    type: 5,
    items: 5,
    anyOf: 5,
    properties: 5,
    other: { type: 'STRING' }
  })
  t.strictSame(
    fromGemini({ prefixItems: [{ type: 'STRING' }, 5], example: 1, propertyOrdering: ['a'], nullable: false }),
    {
      prefixItems: [{ type: 'string' }, 5],
      examples: [1]
    }
  )
  for (const key of ['minItems', 'maxItems', 'minLength', 'maxLength', 'minProperties', 'maxProperties'])
    t.strictSame(fromGemini({ [key]: '7' }), { [key]: 7 })
  for (const around of [ways['items']!, ways['anyOf']!, (a: Json): Json => ({ properties: { a } })]) {
    t.match(JSON.stringify(fromGemini(nested(100, around, { type: 'STRING' }))), /string/)
    t.match(JSON.stringify(fromGemini(nested(101, around, { type: 'STRING' }))), /STRING/)
  }
})
