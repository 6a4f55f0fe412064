// A block of facts finds what its records are, in the format of today and in the one before it.
import fc from 'fast-check'
import t from 'tap'
import { FactBlock, search, tally } from '../../../../../core/store/embedded/rows/fact-block.ts'
import { matches, numbers, texts } from '../../../../../core/store/embedded/rows/facts.ts'
import type { FactQuery, Facts } from '../../../../../core/store/embedded/rows/facts.ts'
import { columnAt, narrowed } from '../../../../../core/store/embedded/rows/narrow-column.ts'

const text = fc.constantFrom('', 'a', 'b', 'c\nd', 'x=1', '\x1f', '\x1e1')
/** Of columns that are narrow and wide, whole and not. */
const number = fc.oneof(
  fc.nat(3),
  fc.nat(70_000),
  fc.nat(9999).map((tenths) => tenths / 10),
  fc.double({ noNaN: true, noDefaultInfinity: true }),
  fc.constantFrom(1_795_000_000_000, 1_795_000_060_123, Number.MAX_SAFE_INTEGER)
)
const facts: fc.Arbitrary<Facts> = fc.record({
  texts: fc.tuple(...texts.map(() => text)),
  numbers: fc.tuple(...numbers.map(() => number))
})
/** Records with the places between them that nobody has. */
const records = fc.array(fc.record({ gap: fc.constantFrom(0, 0, 0, 1, 9), facts }), { minLength: 1, maxLength: 80 })
const some = <T>(names: readonly string[], value: fc.Arbitrary<T>): fc.Arbitrary<Record<string, T>> =>
  fc.dictionary(fc.constantFrom(...names), value, { maxKeys: 2 })
const query = fc.record({
  texts: some(texts, text),
  from: some(numbers, number),
  to: some(numbers, number),
  not: fc.option(fc.record({ texts: some(texts, text), status: fc.constantFrom(undefined, [0, 2], [5, 5] as const) }), {
    nil: undefined
  })
}) as fc.Arbitrary<FactQuery>

/** A block as it was encoded before its columns were narrow. */
function former(places: readonly number[], all: readonly Facts[]): Buffer {
  const known = texts.map((_, column) => [...new Set(all.map((one) => one.texts[column]!))])
  const columns = [
    ...numbers.map((_, column) => Buffer.from(Float64Array.from(all, (one) => one.numbers[column]!).buffer)),
    Buffer.from(Uint16Array.from(places).buffer),
    ...texts.map((_, column) =>
      Buffer.from(Uint16Array.from(all, (one) => known[column]!.indexOf(one.texts[column]!)).buffer)
    )
  ]
  const dictionaries = known.map((values) =>
    Buffer.from(values.map((one) => one.replaceAll('\x1e', '\x1e0').replaceAll('\x1f', '\x1e1')).join('\x1f'))
  )
  const head = Buffer.alloc(56)
  head.writeUInt32LE(all.length, 0)
  let at = columns.reduce((length, column) => length + column.length, head.length)
  for (const [column, dictionary] of dictionaries.entries()) {
    head.writeUInt32LE(at, 8 + column * 4)
    at += dictionary.length
  }
  head.writeUInt32LE(at, 8 + texts.length * 4)
  return Buffer.concat([head, ...columns, ...dictionaries])
}

t.test('a search of a block finds the records that match, in either format', async () => {
  fc.assert(
    fc.property(records, query, (given, asked) => {
      const block = new FactBlock()
      let next = 0
      const places = given.map(({ gap }) => {
        const place = next + gap
        next = place + 1
        return place
      })
      for (const [i, { facts: one }] of given.entries()) block.add(places[i]!, one)
      const all = given.map((one) => one.facts)
      const expected = places.filter((_, i) => matches(all[i]!, asked)).toReversed()
      const sums = places.flatMap((_, i) => (matches(all[i]!, asked) ? [all[i]!.numbers.slice(0, 2)] : []))
      for (const bytes of [block.encode(), former(places, all)]) {
        const found = search(bytes, asked)
        if (String(found) !== String(expected)) throw new Error(`${found} instead of ${expected}`)
        const counted: unknown[] = []
        tally(bytes, asked, (time, status) => counted.push([time, status]))
        if (String(counted) !== String(sums)) throw new Error(`${counted} instead of ${sums}`)
      }
    }),
    { numRuns: 300 }
  )
})

t.test('a column says what it was made of, in no more bytes than it takes', async (t) => {
  fc.assert(
    fc.property(fc.array(number, { minLength: 1, maxLength: 20 }), (values) => {
      const { shape, bytes } = narrowed(values)
      const value = columnAt(new Uint8Array(bytes).buffer, 0, values.length, shape)
      return values.every((one, row) => value(row) === one)
    })
  )
  const width = (...values: number[]): number => narrowed(values).shape.width
  t.equal(width(200, 200), 0)
  t.equal(width(0.1, 25.6), 1)
  t.equal(width(2003.4, 2060.4, 3003.4), 2)
  t.equal(width(1_795_000_000_000, 1_795_000_600_000), 4)
  t.equal(width(Math.PI, 1), 8)
  t.equal(width(0, 2 ** 40), 8)
})
