// A frame of the commit log says what its batch said, whatever its values and however large it is.
import fc from 'fast-check'
import { closeSync, openSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { crc32 } from 'node:zlib'
import t from 'tap'
import {
  auditColumns,
  documentColumns,
  answerColumns,
  emptyBatch,
  entryColumns,
  holdColumns,
  requestColumns,
  routeColumns,
  touchColumns,
  workColumns
} from '../../../../../core/store/embedded/rows/batch.ts'
import type { Batch } from '../../../../../core/store/embedded/rows/batch.ts'
import { decodeBatch, FrameEncoder, headBytes } from '../../../../../core/store/embedded/log/frame.ts'
import { readFrames, scanFrames } from '../../../../../core/store/embedded/log/frame-reader.ts'
import { keyColumns } from '../../../../../core/store/embedded/rows/former-keys.ts'
import { Packer } from '../../../../../core/store/embedded/rows/packing.ts'
import type { Value } from '../../../../../core/store/embedded/files/sqlite.ts'

const history = '0123456789abcdef'

/** Few enough of each kind that columns repeat the row above. */
const value: fc.Arbitrary<Value> = fc.oneof(
  fc.constantFrom<Value>(
    null,
    '',
    'a',
    'terminal',
    0,
    1,
    0n,
    1n,
    2n ** 63n - 1n,
    -(2n ** 63n),
    Number.MAX_SAFE_INTEGER,
    -1,
    -0,
    0.5,
    NaN,
    2 ** 31,
    2 ** 32 + 1,
    2n ** 53n,
    'a text that occurs again',
    'another such text: 日本',
    '019a6f3e-8c11-7abc-9def-0123456789ab',
    '019A6F3E-8C11-7ABC-9DEF-0123456789AB',
    '019a6f3e-8c11-7abc-9def-0123456789ag',
    '019a6f3e-8c11-7abc-9def-0123456789aé',
    'é',
    '日本',
    '😀'
  ),
  fc.string({ unit: 'grapheme', maxLength: 300 }),
  fc.maxSafeInteger(),
  fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }),
  fc.uint8Array({ maxLength: 200 }).map((bytes) => Buffer.from(bytes))
)

function rows(width: number): fc.Arbitrary<Value[]> {
  return fc.array(fc.array(value, { minLength: width, maxLength: width }), { maxLength: 6 }).map((list) => list.flat())
}

const batch = fc.record({
  written: fc.nat(),
  balanced: fc.boolean(),
  prices: rows(2),
  moves: rows(4),
  limits: rows(3),
  opened: rows(holdColumns.length),
  touched: rows(touchColumns.length),
  leased: rows(2),
  works: rows(workColumns.length),
  closed: rows(1),
  entries: rows(entryColumns.length),
  records: rows(requestColumns.length),
  documents: rows(documentColumns.length),
  audit: rows(auditColumns.length),
  answers: rows(answerColumns.length),
  routes: rows(routeColumns.length)
}) as fc.Arbitrary<Omit<Batch, 'number'>>

t.test('what is read is what was written', async (t) => {
  const file = join(t.testdir(), 'log')
  const encoder = new FrameEncoder(history)
  fc.assert(
    fc.property(fc.array(batch, { minLength: 1, maxLength: 5 }), (list) => {
      const batches = list.map((fields, i) => ({ ...fields, number: i + 1 }))
      // Copied, as the next frame is written into the same memory.
      t.same(
        read(
          file,
          batches.map((batch) => Buffer.from(encoder.encode(batch)))
        ),
        batches
      )
    }),
    { numRuns: 150 }
  )
})

t.test('batches of all sizes, one behind the other', async (t) => {
  const file = join(t.testdir(), 'log')
  const encoder = new FrameEncoder(history)
  const batches = [1, 100, 20_000, 3, 70_000, 1].map((count, i) => {
    const batch = emptyBatch(i + 1, 1000)
    batch.records = Array.from({ length: count }, (_, row) => [
      `request ${row}`,
      'acme',
      null,
      `model ${i}`,
      row,
      JSON.stringify({ row, text: 'é'.repeat(row % 50) })
    ]).flat()
    return batch
  })
  const frames = batches.map((batch) => Buffer.from(encoder.encode(batch)))
  t.ok(
    frames.some(({ length }) => length > 1024 * 1024),
    `${frames.map(({ length }) => length).join(', ')} bytes`
  )
  t.same(read(file, frames), batches)
})

t.test('a frame in a format of the future stops the reader, which says so', async (t) => {
  const file = join(t.testdir(), 'log')
  const frame = Buffer.from(new FrameEncoder(history).encode(emptyBatch(1, 1000)))
  frame[headBytes] = 10
  frame.writeUInt32BE(crc32(frame.subarray(headBytes)), 24)
  frame.writeUInt32BE(crc32(frame.subarray(0, 28)), 28)
  t.throws(() => read(file, [frame]), {
    message: 'the commit log has format 10, which this program does not know: start the one that wrote it'
  })
})

t.test('batches are numbered beyond 32 bits', async (t) => {
  const file = join(t.testdir(), 'log')
  const encoder = new FrameEncoder(history)
  const numbers = [2 ** 32 - 1, 2 ** 32, 2 ** 32 + 1]
  t.same(
    read(
      file,
      numbers.map((number) => Buffer.from(encoder.encode(emptyBatch(number, 1000))))
    ).map(({ number }) => number),
    numbers
  )
  const last = Number.MAX_SAFE_INTEGER
  t.same(
    read(file, [Buffer.from(encoder.encode(emptyBatch(last, 1000)))]).map(({ number }) => number),
    [last]
  )
})

t.test('frames are found behind any damaged byte, and those of other histories are not', async (t) => {
  const file = join(t.testdir(), 'log')
  const encoder = new FrameEncoder(history)
  const frames = [1, 2, 3].map((number) => Buffer.from(encoder.encode(emptyBatch(number, 1000))))
  const foreign = Buffer.from(new FrameEncoder('fedcba9876543210').encode(emptyBatch(4, 1000)))
  const bytes = Buffer.concat([...frames, foreign])
  const second = frames[0]!.length
  const seen = (at: number): string => {
    const damaged = Buffer.from(bytes)
    damaged[at]! ^= 1
    writeFileSync(file, damaged)
    const fd = openSync(file, 'r')
    const found = [...scanFrames(fd, history, 0, 0)]
      .map(({ number, whole }) => `${number}${whole ? '' : ' broken'}`)
      .join()
    closeSync(fd)
    return found
  }
  t.equal(seen(bytes.length - 1), '1,2,3')
  const wrong = Array.from({ length: frames[1]!.length }, (_, at) => at).filter(
    (at) => seen(second + at) !== (at < headBytes ? '1,3' : '1,2 broken,3')
  )
  t.same(wrong, [], 'whichever bit of the second it is')
})

function read(file: string, frames: readonly Buffer[]): Batch[] {
  writeFileSync(file, Buffer.concat(frames))
  const fd = openSync(file, 'r')
  try {
    return [...readFrames(fd, history, 0, 0)].map(({ batch }) => batch)
  } finally {
    closeSync(fd)
  }
}

t.test('a frame of an earlier format is read, with what it did not write yet', (t) => {
  const hold: Value[] = [3, 'r1', '', '{}', 9n, 'gpt-5', 'p:1', 10, 20, 1, 'a', 0, 'chat', 'openai-chat', 0, 5]
  const asked: Value[] = [Buffer.from('id'), 5, Buffer.from('asked'), 200, 'application/json', 0, null]
  const other: Value[] = [Buffer.from('other'), 6, Buffer.from('asked'), 200, 'text/plain', 1, Buffer.from('body')]
  const completed = (answer: Value[]): Value[] => [answer[0]!, '', ...answer.slice(1, 5), '{}', ...answer.slice(5)]
  const answers = [asked, other]
  const sha256 = Buffer.alloc(32, 7)
  const rest: Value[] = ['["*"]', '["chat"]', '{"rpm":5}']
  const keys: Value[][] = [
    ['laptop', sha256, 'sk-ab…9f', 'acme', 'web', 'alice', ...rest, 5_000_000_000n, 'day', Date.UTC(2027, 0), 5, null],
    ['plain', sha256, 'sk-ab…9f', 'acme', null, null, ...rest, null, null, null, 6, 7]
  ]
  const settings = { models: ['*'], endpoints: ['chat'], limits: { rpm: 5 } }
  const secret = { sha256: sha256.toString('hex'), hint: 'sk-ab…9f' }
  const plain = { name: 'plain', tenant: 'acme', settings, secrets: [{ ...secret, created: 6 }], created: 6 }
  const whole = {
    name: 'laptop',
    tenant: 'acme',
    project: 'web',
    member: 'alice',
    settings: { ...settings, budget: { usd: '5', per: 'day' }, expires: '2027-01-01T00:00:00.000Z' },
    secrets: [{ ...secret, created: 5 }],
    created: 5
  }
  const formats: [number, Value[][], Value[]][] = [
    [1, answers, ['acme', '', 'resp_1', 'response', 'a', 'print', 'demo', 9]],
    [2, answers.map(completed), ['acme', '', 'resp_1', 'response', 'a', 'print', 'demo', null, 9]],
    [3, answers.map(completed), ['acme', '', 'resp_1', 'response', 'a', 'print', 'demo', null, 9]]
  ]
  const entry: Value[] = ['settle', 'r1', '', 'terminal', '{}', 5n, 9n, null, 'demo', 'a', 'v', 'upstream', 7]
  for (const [format, answersThen, route] of formats) {
    const packer = new Packer()
    packer.rows([7, 1, 0], 3)
    for (const width of [2, 4, 3]) packer.rows([], width)
    const then = format < 3 ? hold : [...hold, '{"second":1}']
    packer.rows([...then, ...then], then.length)
    packer.rows(['a', 5, 2, 'b', 6, 3], 3)
    packer.rows([], 1)
    packer.rows([...entry, ...entry], entry.length)
    packer.rows([], requestColumns.length)
    packer.rows(keys.flat(), keyColumns.length)
    packer.rows([], 2)
    packer.rows(answersThen.flat(), answersThen[0]!.length)
    packer.rows(route, route.length)
    packer.rows([], workColumns.length)
    const payload = Buffer.alloc(1 + packer.mostBytes)
    payload[0] = format
    const batch = decodeBatch(payload.subarray(0, packer.write(payload, 1)), undefined)
    const held = [...hold, format < 3 ? null : '{"second":1}', null, null]
    t.same(batch.opened, [...held, ...held], `format ${format}`)
    t.same(batch.touched, ['a', null, 5, null, null, 2, 'b', null, 6, null, null, 3], `format ${format}`)
    const charged = [...entry, null, null, null]
    t.same(batch.entries, [...charged, ...charged], `format ${format}`)
    t.same(batch.answers, answers.flatMap(completed), `format ${format}`)
    t.same(batch.routes, ['acme', '', 'resp_1', 'response', 'a', 'print', 'demo', null, 9], `format ${format}`)
    t.same(
      [0, 3].map((at) => [...batch.documents.slice(at, at + 2), JSON.parse(batch.documents[at + 2] as string)]),
      [
        ['key', 'laptop', whole],
        ['key', 'plain', { ...plain, revoked: 7 }]
      ],
      `format ${format}`
    )
    t.same(batch.audit, [], `format ${format}`)
    payload[0] = 10
    t.throws(() => decodeBatch(payload, undefined), /format 10/)
  }
  t.end()
})

t.test('records of an earlier format are read without what they were searched by', (t) => {
  const record: Value[] = ['r1', 'acme', null, 'demo', 5, '{}']
  for (const format of [6, 7]) {
    const packer = new Packer()
    packer.rows([7, 1, 0], 3)
    const widths = [2, 4, 3, holdColumns.length, touchColumns.length - (format < 7 ? 2 : 0), 1, entryColumns.length]
    for (const width of widths) packer.rows([], width)
    packer.rows([...record, 'facts', ...record, 'other'], record.length + 1)
    for (let i = 0; i < 6; i++) packer.rows([], 1)
    const payload = Buffer.alloc(1 + packer.mostBytes)
    payload[0] = format
    const { records } = decodeBatch(payload.subarray(0, packer.write(payload, 1)), undefined)
    t.same(records, [...record, ...record], `format ${format}`)
  }
  t.end()
})
