// The gist of a usual record is read from its text without parsing that, and is what parsing finds.
import { deepStrictEqual, ok } from 'node:assert/strict'
import fc from 'fast-check'
import t from 'tap'
import { textOfRecord } from '../../../../../core/store/embedded/rows/record-text.ts'
import { usualGist } from '../../../../../core/store/embedded/rows/usual-gist.ts'
import { formatDollars } from '../../../../../core/money/money.ts'
import type { RecordGist, RequestRecord } from '../../../../../core/store/requests.ts'
import { noon, record, used } from '../sample.ts'

/** What a gist has of a record. */
function expected(given: RequestRecord): RecordGist {
  const { project, member, endpoint, channel, status, error_code, outcome, cost_nano, first_byte_ms, duration_ms } =
    given
  const { usage, attempts } = given
  return {
    project,
    member,
    endpoint,
    channel,
    status,
    error_code,
    outcome,
    cost_nano,
    first_byte_ms,
    duration_ms,
    usage: usage && {
      input: usage.input,
      cached_input: usage.cached_input,
      cache_write: usage.cache_write,
      output: usage.output
    },
    attempts: attempts.map(({ channel: name }) => ({ channel: name }))
  }
}

function gistOf(given: RequestRecord): RecordGist | undefined {
  const text = textOfRecord(given, noon)
  ok(text.startsWith('['), 'it is an array')
  return usualGist(text)
}

/** Names as a text has them without an escape. */
const word = fc.string({
  unit: fc.constantFrom('a', 'ß', '€', '😀', ']', '[', ',', '}', '{', ' ', "'", '0', '-', '\u2028')
})
const milliseconds = fc.oneof(fc.nat(), fc.double({ noNaN: true, noDefaultInfinity: true }))
const attempt = fc.record({
  channel: word,
  status: fc.nat(599),
  head_ms: milliseconds,
  first_byte_ms: milliseconds,
  duration_ms: milliseconds,
  at_ms: milliseconds
})
const usualRecord = fc
  .record({
    project: fc.option(word),
    member: fc.option(word),
    requested_model: fc.option(word),
    endpoint: word,
    channel: fc.option(word),
    status: fc.nat(599),
    error_code: fc.option(word),
    outcome: word,
    streamed: fc.boolean(),
    usage: fc.oneof(fc.constant(null), fc.constant(used(3, 4)), fc.constant({ ...used(1), reasoning: 7 })),
    cost: fc.bigInt(-(10n ** 20n), 10n ** 20n),
    price_version: fc.option(word),
    attempts: fc.array(attempt, { maxLength: 1 }),
    first_byte_ms: fc.option(milliseconds),
    duration_ms: milliseconds,
    client_request_id: fc.option(word),
    times: fc.constantFrom(
      undefined,
      { body_ms: 0.5, plugins_ms: 1e-7 },
      { body_ms: 1, plugins_ms: 2, hooks: [{ plugin: 'quota', hook: 'onRequest', at_ms: 0.1, duration_ms: 3 }] }
    )
  })
  .map(({ cost, times, ...given }) =>
    record({
      ...given,
      ...(times && { times }),
      cost_nano: String(cost),
      cost_usd: formatDollars(cost)
    } as Partial<RequestRecord>)
  )

t.test('that of a usual record is read', (t) => {
  t.doesNotThrow(() =>
    fc.assert(
      fc.property(usualRecord, (given) => {
        const plain = JSON.parse(JSON.stringify(given)) as RequestRecord
        deepStrictEqual({ ...gistOf(plain) }, expected(plain))
      }),
      { numRuns: 500 }
    )
  )
  t.end()
})

t.test('any other one is left to whoever parses it', (t) => {
  const one: RequestRecord['attempts'][number] = { channel: 'a', status: 200, duration_ms: 1 }
  const strange: Partial<RequestRecord>[] = [
    { project: 'a "quoted" name' },
    { member: 'a\nline' },
    { outcome: 'back\\slash' as RequestRecord['outcome'] },
    { tags: { team: 'x' } },
    { tags: { team: ']]' } },
    { attempts: [one, one] },
    { attempts: [{ ...one, error: 'refused' }] },
    { usage: { ...used(1), image: 2 } as RequestRecord['usage'] },
    { 'a new member': 1 } as Partial<RequestRecord>
  ]
  for (const given of strange) t.equal(gistOf(record(given)), undefined, JSON.stringify(given))
  for (const text of ['', '[]', '{}', '[1,2]', `${textOfRecord(record({}), noon)} `])
    t.equal(usualGist(text), undefined)
  t.end()
})
