// A request record is read as it was given, whatever it has, and a usual one takes a third of its JSON.
import { deepStrictEqual } from 'node:assert/strict'
import fc from 'fast-check'
import t from 'tap'
import { factsOf } from '../../../../../core/store/embedded/rows/facts.ts'
import {
  checkedText,
  costPlace,
  gistIn,
  recordIn,
  textOfRecord
} from '../../../../../core/store/embedded/rows/record-text.ts'
import type { RecordRow } from '../../../../../core/store/embedded/rows/record-text.ts'
import { passedOf } from '../../../../../core/store/traffic.ts'
import type { RequestRecord } from '../../../../../core/store/requests.ts'
import { formatDollars } from '../../../../../core/money/money.ts'
import { noon, record, used } from '../sample.ts'
import { codePoint } from '../../../../kit/code-point.ts'

const usual = record({
  usage: used(20, 5),
  usage_source: 'upstream',
  cost_usd: '0.00000002',
  cost_nano: '20',
  price_version: 'sample:1',
  reserved_nano: '1000',
  attempts: [
    { channel: 'openai', status: 200, head_ms: 1, first_byte_ms: 4.5, duration_ms: 9.8, at_ms: 0.2 },
    { channel: 'other', model: 'gpt-4', error_code: 'upstream_error', error: 'refused', sent: false, duration_ms: 3 }
  ],
  times: {
    body_ms: 0.3,
    plugins_ms: 0.5,
    hooks: [{ plugin: 'quota', hook: 'onRequest', at_ms: 0.1, duration_ms: 0.2 }],
    omitted: 2
  }
})

function rowOf(given: RequestRecord, time = Date.parse(given.time)): RecordRow {
  const { request_id, tenant, key, model } = given
  return { request_id, tenant, key, model, time, json: textOfRecord(given, time) }
}

/** What is read of a record that was kept. */
function kept(given: RequestRecord): RequestRecord {
  return recordIn(rowOf(given))
}

t.test('a usual record is an array, and is read as it was given', (t) => {
  const text = textOfRecord(usual, noon)
  t.match(text, /^\[/)
  t.ok(text.length < 0.4 * JSON.stringify(usual).length, `${text.length} of ${JSON.stringify(usual).length} characters`)
  t.equal((JSON.parse(text) as unknown[])[costPlace], '20')
  t.strictSame(kept(usual), usual)
  t.end()
})

t.test('whatever a record has beside that, it is read as it was given', (t) => {
  const word = fc.string({ unit: 'grapheme', maxLength: 12 })
  const others = fc.record(
    {
      tenant: fc.option(word),
      model: fc.option(fc.string({ unit: codePoint, maxLength: 8 })),
      time: fc.constantFrom(usual.time, '2026-11-21T12:00:00Z', '2026-11-21T13:00:00.000+01:00', 'never', ''),
      usage: fc.constantFrom(null, { ...used(1), image: 2 }, { input: 1 }),
      cost_usd: fc.constantFrom('0.00000002', '0.000000020', 'much'),
      cost_nano: fc.oneof(
        fc.constantFrom('', '-0', '1e3'),
        fc.bigInt(-(10n ** 20n), 10n ** 20n).map((n) => String(n))
      ),
      price_version: fc.constantFrom(undefined, null, 'v'),
      attempts: fc.constantFrom([], [{}], [{ channel: null, model: null, 'a new member': { of: 'any kind' } }]),
      times: fc.constantFrom(undefined, {}, { plugins_ms: 1 }, { hooks: [], refused_by: 'x' }),
      tags: fc.dictionary(word, word),
      reason: fc.constant({ code: 'x', nested: [1, null] }),
      'a new member': fc.jsonValue()
    },
    { requiredKeys: [] }
  )
  fc.assert(
    fc.property(others, fc.boolean(), (more, priced) => {
      const given = { ...usual, ...more } as RequestRecord
      if (priced && /^-?\d+$/.test(given.cost_nano)) given.cost_usd = formatDollars(BigInt(given.cost_nano))
      const plain = JSON.parse(JSON.stringify(given)) as RequestRecord
      deepStrictEqual(kept(plain), plain)
      const row = rowOf(plain)
      const gist = gistIn(row)
      deepStrictEqual(factsOf(row, gist), factsOf(row, plain), 'what it is searched by')
      // What is written by hand may say less than every usage has, and an amount that is none.
      if (!/^-?\d+$/.test(plain.cost_nano) || (plain.usage && !('output' in plain.usage))) return
      deepStrictEqual(passedOf(gist), passedOf(plain), 'what it adds to traffic')
    }),
    { numRuns: 300 }
  )
  t.pass()
  t.end()
})

t.test('one of an earlier version is kept as an object, and is read', (t) => {
  const { times: _, price_version: __, ...earlier } = usual
  const text = textOfRecord(earlier as RequestRecord, noon)
  t.equal(text, JSON.stringify(earlier))
  t.strictSame(kept(earlier as RequestRecord), earlier)
  t.end()
})

t.test('one that lacks a column is kept with whatever else it has', (t) => {
  const { tenant: _, ...without } = usual
  const given = { ...without, 'a new member': 1 } as unknown as RequestRecord
  t.strictSame(kept(given), given)
  t.end()
})

t.test('the checksum of one covers the columns that it leaves out', (t) => {
  const row = rowOf(usual, noon)
  const own = checkedText(row)
  for (const other of [{ tenant: 'b' }, { key: null }, { model: 'b' }, { time: noon + 1 }, { request_id: 'b' }])
    t.not(checkedText({ ...row, ...other }), own, Object.keys(other)[0]!)
  t.not(checkedText({ ...row, json: row.json.replace('sample:1', 'sample:2') }), own)
  t.end()
})
