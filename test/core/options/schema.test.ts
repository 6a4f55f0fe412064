// Option schemas: the check, the conversion of units, the sentences, and the draft-07 schema made of them.
import { Ajv } from 'ajv'
import fc from 'fast-check'
import t from 'tap'
import { checkerOf } from '../../../core/options/schema-check.ts'
import { objectSchema } from '../../../core/options/json-schema.ts'
import { nearest } from '../../../core/options/suggest.ts'
import { convertUnit } from '../../../core/options/units.ts'
import { formatDollars } from '../../../core/money/money.ts'
import type { OptionSchema, OptionSchemas, OptionValues } from '../../../core/options/schema.ts'

const description = 'An option.'

/** Checks one option called `it`. */
function check(option: Record<string, unknown>, it: unknown): { value: unknown; faults: string[] } {
  const options: OptionSchemas = { it: { description, ...option } as OptionSchema }
  const { value, faults } = checkerOf(options)({ it })
  return {
    value: (value as { it?: unknown }).it,
    faults: faults.map(({ pointer, on, message }) => `${pointer} ${on}: ${message}`)
  }
}

t.test('values have defaults filled in and units converted, and the type says so', (t) => {
  const options = {
    wait: { type: 'string', format: 'duration', default: '1m', description },
    room: { type: 'string', format: 'size', default: '1KiB', description },
    money: { type: 'string', format: 'usd', default: '0.25', description },
    day: { type: 'string', format: 'date', description },
    mode: { type: 'string', enum: ['fast', 'safe'], default: 'safe', description },
    inner: {
      type: 'object',
      default: {},
      description,
      properties: { depth: { type: 'integer', default: 3, description } },
      or: [false]
    },
    list: {
      type: 'array',
      items: { type: 'string', format: 'duration', description },
      default: ['1s', '2s'],
      description
    },
    byName: {
      type: 'object',
      additionalProperties: { type: 'string', format: 'size', description },
      default: {},
      description
    },
    must: { type: 'number', description }
  } as const satisfies OptionSchemas
  const { value, faults } = checkerOf(options, ['must'])({ must: 1.5, byName: { a: 5, b: '1MB' } })
  // The annotation is the test: it compiles only if the types follow the schema.
  const typed: {
    readonly wait: number
    readonly room: number
    readonly money: bigint
    readonly day?: number | undefined
    readonly mode: 'fast' | 'safe'
    readonly inner: { readonly depth: number } | false
    readonly list: readonly number[]
    readonly byName: { readonly [name: string]: number }
    readonly must: number
  } = value
  const optional: OptionValues<typeof options>['must'] = undefined
  t.equal(optional, undefined)
  t.same(faults, [])
  t.same(typed, {
    wait: 60_000,
    room: 1024,
    money: 250_000_000n,
    mode: 'safe',
    inner: { depth: 3 },
    list: [1000, 2000],
    byName: { a: 5, b: 1_000_000 },
    must: 1.5
  })
  t.end()
})

t.test('what is checked is not changed, and a checker is made once', (t) => {
  const options: OptionSchemas = { wait: { type: 'string', format: 'duration', default: '1m', description } }
  const given = { wait: '5s' }
  t.same(checkerOf(options)(given).value, { wait: 5000 })
  t.same(given, { wait: '5s' })
  t.same(checkerOf(options)(undefined).value, { wait: 60_000 })
  t.equal(checkerOf(options), checkerOf(options))
  t.end()
})

t.test('units convert exactly', (t) => {
  const table = {
    duration: [
      ['0s', 0],
      ['500ms', 500],
      ['30s', 30_000],
      ['5m', 300_000],
      ['2h', 7_200_000],
      ['1d', 86_400_000]
    ],
    size: [
      ['0', 0],
      [1048576, 1048576],
      ['7B', 7],
      ['64KiB', 65536],
      ['16 MiB', 16777216],
      ['1GB', 1e9],
      ['2KB', 2000],
      ['1TiB', 2 ** 40]
    ],
    usd: [
      ['0', 0n],
      [20, 20_000_000_000n],
      ['0.000000001', 1n],
      ['1e-9', 1n],
      [0.1, 100_000_000n],
      ['1.10', 1_100_000_000n],
      ['1000000000', 10n ** 18n]
    ],
    date: [
      ['2027-01-01', Date.UTC(2027, 0, 1)],
      ['2028-02-29', Date.UTC(2028, 1, 29)],
      ['2027-01-01T12:00:00Z', Date.UTC(2027, 0, 1, 12)],
      ['2027-01-01t00:30:00.25+02:00', Date.UTC(2026, 11, 31, 22, 30, 0, 250)]
    ],
    decimal: [
      ['0.0375', '0.0375'],
      [1.25, '1.25'],
      ['1e-7', '1e-7']
    ]
  } as const
  const refused = {
    duration: ['', '30', '30 s', '-1s', '1.5h', 's', '1w', '999999999999d1', '1S'],
    size: ['', '-1', '1.5MiB', '16mib', '1PiB', 'KiB', '99999999999999999', '9999999999999TiB'],
    usd: ['', '-1', '.5', '1.', '1,5', '$5', '0.0000000001', '1e3x', 'NaN', '1000000001'],
    date: [
      '',
      '2027',
      '2027-13-01',
      '2027-02-29',
      '2027-1-1',
      '2027-01-01T25:00:00Z',
      '2027-01-01T12:00:00',
      '2027-01-01 12:00:00Z',
      'tomorrow'
    ],
    decimal: ['', '-1', '1.', 'free', '0x10', '1e', '1234567890123']
  } as const
  for (const [unit, rows] of Object.entries(table)) {
    for (const [written, value] of rows)
      t.equal(convertUnit(unit as keyof typeof table, written), value, `${unit} ${written}`)
  }
  for (const [unit, words] of Object.entries(refused)) {
    for (const written of words)
      t.equal(convertUnit(unit as keyof typeof table, written), undefined, `${unit} "${written}" is refused`)
  }
  fc.assert(fc.property(fc.bigInt(0n, 10n ** 18n), (nano) => convertUnit('usd', formatDollars(nano)) === nano))
  t.end()
})

t.test('every fault names the value, what it must be and where it stands', (t) => {
  const rows: [Record<string, unknown>, unknown, string[]][] = [
    [{ type: 'string' }, 5, ['/it value: must be text (put it in quotes), not 5']],
    [{ type: 'string' }, {}, ['/it value: must be text, not a map']],
    [{ type: 'string', minLength: 1 }, '', ['/it value: must not be empty']],
    [{ type: 'string', pattern: '^a+$', patternErrorMessage: 'some a' }, 'b', ['/it value: must be some a, not "b"']],
    [
      { type: 'string', pattern: '^\\d+$', patternErrorMessage: 'digits' },
      7,
      ['/it value: must be digits (put it in quotes), not 7']
    ],
    [{ type: 'string', pattern: '^a$' }, 'b', ['/it value: must be text that matches ^a$, not "b"']],
    [
      { type: 'string', enum: ['stdout', 'stderr'] },
      'stdot',
      ['/it value: must be one of stdout, stderr, not "stdot": did you mean "stdout"?']
    ],
    [{ type: 'string', enum: ['only'] }, 'x', ['/it value: must be only, not "x"']],
    [{ type: 'integer', minimum: 1, maximum: 5 }, 9, ['/it value: must be from 1 to 5, not 9']],
    [{ type: 'number', minimum: 0 }, -0.5, ['/it value: must be at least 0, not -0.5']],
    [{ type: 'number', maximum: 1 }, 2, ['/it value: must be at most 1, not 2']],
    [{ type: 'integer' }, 1.5, ['/it value: must be a whole number, not 1.5']],
    [{ type: 'number' }, NaN, ['/it value: must be a number, not NaN']],
    [{ type: 'boolean' }, 'yes', ['/it value: must be true or false, not "yes"']],
    [{ type: 'array', minItems: 1, items: { type: 'integer', description } }, [], ['/it value: must not be empty']],
    [
      { type: 'array', items: { type: 'integer', description } },
      [1, 'a', null],
      ['/it/1 value: must be a whole number, not "a"', '/it/2 value: must be a whole number, not nothing']
    ],
    [
      { type: 'string', format: 'duration', atLeast: '1s', atMost: '1h' },
      '500ms',
      ['/it value: must be at least 1s, not "500ms"']
    ],
    [
      { type: 'string', format: 'duration', atLeast: '1s', atMost: '1h' },
      '1d',
      ['/it value: must be at most 1h, not "1d"']
    ],
    [
      { type: 'string', format: 'duration' },
      30,
      ['/it value: must be a duration like 500ms, 30s, 5m, 2h or 1d, not 30']
    ],
    [
      {
        type: 'object',
        properties: { a: { type: 'integer', description }, bc: { type: 'integer', description } },
        required: ['a', 'bc']
      },
      { bcd: 1 },
      ['/it missing: "a" is missing', '/it missing: "bc" is missing', '/it/bcd name: unknown key, did you mean "bc"?']
    ],
    [
      { type: 'object', properties: { depth: { type: 'integer', description } } },
      { dpeth: 1 },
      ['/it/dpeth name: unknown key, did you mean "depth"?']
    ],
    [
      { type: 'object', properties: { depth: { type: 'integer', description } } },
      { sink: 1 },
      ['/it/sink name: unknown key: known are depth']
    ],
    [
      { type: 'object', properties: {}, or: ['free', false] },
      'fre',
      ['/it value: must be a map or one of free, false, not "fre": did you mean "free"?']
    ],
    [
      { type: 'object', additionalProperties: { type: 'integer', description } },
      { 'a/b': 'x' },
      ['/it/a~1b value: must be a whole number, not "x"']
    ],
    [
      {
        type: 'object',
        additionalProperties: { type: 'integer', description },
        propertyNames: { pattern: '^[a-z]+$', patternErrorMessage: 'small letters' }
      },
      { A: 1 },
      ['/it/A name: the name must be small letters']
    ],
    [{ type: 'string', secret: true, pattern: '^sk-' }, 'hunter2', ['/it value: must be text that matches ^sk-']],
    [{ type: 'string', secret: true, enum: ['a'] }, 'hunter2', ['/it value: must be a']],
    [
      { type: 'string', secret: true, format: 'duration' },
      'hunter2',
      ['/it value: must be a duration like 500ms, 30s, 5m, 2h or 1d']
    ],
    [{ type: 'integer' }, 'sk-0123456789', ['/it value: must be a whole number, not what looks like a key']],
    [{ type: 'integer' }, 'x'.repeat(100), [`/it value: must be a whole number, not "${'x'.repeat(39)}…"`]]
  ]
  for (const [option, value, expected] of rows) {
    t.same(
      check(option, value).faults.toSorted(),
      expected.toSorted(),
      `${JSON.stringify(option)} ${JSON.stringify(value)}`
    )
  }
  t.end()
})

t.test('choices that look like numbers may be written as numbers', (t) => {
  t.same(check({ type: 'string', enum: ['1M', '1K', '1'] }, 1), { value: '1', faults: [] })
  t.match(check({ type: 'string', enum: ['1M', '1K', '1'] }, 2).faults, ['/it value: must be one of 1M, 1K, 1, not 2'])
  t.end()
})

t.test('keys that objects have by nature are keys like any other', (t) => {
  const options: OptionSchemas = {
    names: { type: 'object', additionalProperties: { type: 'integer', description }, description },
    known: { type: 'object', properties: { a: { type: 'integer', default: 1, description } }, description }
  }
  const hostile = JSON.parse(
    '{"names": {"__proto__": 1, "constructor": 2, "toString": 3}, "known": {"__proto__": {"a": 5}}}'
  )
  const { value, faults } = checkerOf(options)(hostile)
  t.same(Object.entries((value as { names: object }).names), [
    ['__proto__', 1],
    ['constructor', 2],
    ['toString', 3]
  ])
  t.match(faults, [{ pointer: '/known/__proto__', on: 'name' }])
  t.equal(({} as { a?: unknown }).a, undefined)
  t.match(checkerOf(options)(JSON.parse('{"constructor": 1}')).faults, [
    { pointer: '/constructor', message: 'unknown key: known are names, known' }
  ])
  t.end()
})

t.test('any value is either accepted or has a fault, and is never thrown at', (t) => {
  const options: OptionSchemas = {
    a: { type: 'string', format: 'usd', description },
    b: { type: 'array', items: { type: 'string', format: 'date', description }, description },
    c: {
      type: 'object',
      or: ['x', false],
      properties: { d: { type: 'string', format: 'size', default: '1KiB', description } },
      description
    },
    e: { type: 'object', additionalProperties: { type: 'object', properties: {}, description }, description },
    f: { description }
  }
  const key = fc.constantFrom('a', 'b', 'c', 'd', 'e', 'f', '__proto__', 'g/h~')
  const { tree } = fc.letrec((tie) => ({
    tree: fc.oneof(
      { maxDepth: 4 },
      fc.anything({ maxDepth: 0 }),
      fc.array(tie('tree')),
      fc.dictionary(key, tie('tree'))
    )
  }))
  fc.assert(
    fc.property(tree, (value) => {
      const { faults } = checkerOf(options)(value)
      return faults.every(({ pointer, message }) => message.length > 0 && (pointer === '' || pointer.startsWith('/')))
    }),
    { numRuns: 500 }
  )
  t.end()
})

t.test('the schema for editors is plain draft-07 and agrees with the check', (t) => {
  const options: OptionSchemas = {
    wait: { type: 'string', format: 'duration', default: '1m', description: 'How long.', examples: ['5s'] },
    token: { type: 'string', secret: true, description: 'Hidden.' },
    size: { type: 'string', format: 'size', description }
  }
  t.same(objectSchema(options, ['size']), {
    type: 'object',
    additionalProperties: false,
    required: ['size'],
    properties: {
      wait: {
        title: 'wait',
        type: 'string',
        description: 'How long.',
        default: '1m',
        examples: ['5s'],
        pattern: '^\\d{1,12}(ms|s|m|h|d)$',
        patternErrorMessage: 'a duration like 500ms, 30s, 5m, 2h or 1d'
      },
      token: { title: 'token', type: 'string', description: 'Hidden.', writeOnly: true },
      size: {
        title: 'size',
        type: ['string', 'number'],
        description,
        pattern: '^\\d{1,15} ?([KMGT]i?B|B)?$',
        patternErrorMessage: 'a size like 64KiB, 16MiB, 1GB or 1048576'
      }
    }
  })
  const validate = new Ajv({ strict: false }).compile(objectSchema(options) as object)
  fc.assert(
    fc.property(
      fc.stringMatching(/^[0-9]{1,3}(ms|s|m|h|d|w|S)?$/),
      (wait) => validate({ wait }) === (checkerOf(options)({ wait, size: 1 }).faults.length === 0)
    )
  )
  t.end()
})

t.test('the nearest known word is one that a slip of the fingers makes', (t) => {
  t.equal(nearest('chanel', ['channels', 'channel', 'models']), 'channel')
  t.equal(nearest('qouta', ['quota', 'auth']), 'quota')
  t.equal(nearest('AUTH', ['quota', 'auth']), 'auth')
  t.equal(nearest('xyz', ['auth', 'log']), undefined)
  t.equal(nearest('x'.repeat(1000), ['x']), undefined)
  t.end()
})
