// What the parts of the console make of data, without a browser: amounts, rows of tables, differences, schemas.
import fc from 'fast-check'
import t from 'tap'
import { allDigits, fullMoney, shortMoney } from '../../core/admin/console/app/parts/amounts.ts'
import { diffOf } from '../../core/admin/console/app/parts/diff-lines.ts'
import { emptyOf, kindOf, plain, variantsOf } from '../../core/admin/console/app/parts/schema.ts'
import { matches, sorted, tsvOf } from '../../core/admin/console/app/parts/table-rows.ts'
import type { Valued } from '../../core/admin/console/app/parts/table-rows.ts'

t.test('money is short for people, and whole on demand', async (t) => {
  for (const [nano, short, full] of [
    ['0', '$0.00', '$0.00'],
    ['105000', '$0.000105', '$0.000105'],
    ['1', '$0.000000001', '$0.000000001'],
    ['123456789', '$0.123', '$0.123456789'],
    ['999999999', '$1.00', '$0.999999999'],
    ['12345678901', '$12.35', '$12.345678901'],
    ['-12345678901', '-$12.35', '-$12.345678901'],
    ['1234567890123', '$1,235', '$1,234.567890123'],
    ['9007199254740993000000001', '$9,007,199,254,740,993', '$9,007,199,254,740,993.000000001']
  ] as const) {
    t.equal(shortMoney(nano), short, nano)
    t.equal(fullMoney(nano), full, nano)
  }
  fc.assert(
    fc.property(fc.bigInt(), (nano) => {
      const [whole, decimals = ''] = allDigits(String(nano)).replaceAll(',', '').split('.')
      return BigInt(whole!.replace('-', '') + decimals.padEnd(9, '0')) === (nano < 0n ? -nano : nano)
    })
  )
})

interface Row {
  name: string
  size: number | null
}
const columns: Valued<Row>[] = [
  { id: 'name', title: 'Name', value: ({ name }) => name },
  { id: 'size', title: 'Size', value: ({ size }) => size }
]
const rows: Row[] = [
  { name: 'b10', size: 2 },
  { name: 'b9', size: null },
  { name: '=1+1', size: -3 }
]

t.test('rows are sorted, filtered and copied', async (t) => {
  const names = (column: string, down: boolean): string[] =>
    sorted(rows, columns, { column, down }).map(({ name }) => name)
  t.same(names('name', false), ['=1+1', 'b9', 'b10'])
  t.same(names('size', false), ['=1+1', 'b10', 'b9'], 'what has no value comes last')
  t.same(names('size', true), ['b10', '=1+1', 'b9'], 'in both directions')
  t.ok(matches(rows[0]!, columns, 'B10 2'))
  t.notOk(matches(rows[0]!, columns, 'b10 3'))
  t.equal(
    tsvOf(rows, columns),
    "Name\tSize\nb10\t2\nb9\t\n'=1+1\t-3",
    'a text is no formula, and a number keeps its sign'
  )
})

t.test('a difference leads from one text to the other', async (t) => {
  const line = fc.constantFrom('a', 'b', 'c', 'd')
  const text = fc.array(line, { minLength: 1, maxLength: 12 }).map((lines) => lines.join('\n'))
  fc.assert(
    fc.property(text, text, (before, after) => {
      const lines = diffOf(before, after)
      if (lines.some(({ kind }) => kind === 'skip')) return true
      const side = (gone: 'in' | 'out'): string =>
        lines
          .filter(({ kind }) => kind !== gone)
          .map((one) => one.text)
          .join('\n')
      return side('in') === before && side('out') === after
    })
  )
  const long = Array.from({ length: 40 }, (_, place) => `line ${place}`)
  const shown = diffOf(long.join('\n'), long.with(20, 'other').join('\n'))
  t.same(
    shown.map(({ kind }) => kind),
    ['skip', 'same', 'same', 'same', 'out', 'in', 'same', 'same', 'same', 'skip']
  )
})

t.test('fields are made for what a schema says', async (t) => {
  const reference = { type: 'string', pattern: '\\$\\{[A-Za-z_]' }
  t.equal(kindOf(plain({ title: 'rpm', anyOf: [{ type: 'integer' }, reference] })), 'number')
  t.equal(plain({ title: 'rpm', anyOf: [{ type: 'integer' }, { type: 'null' }] }).title, 'rpm')
  t.equal(kindOf({ enum: ['a'] }), 'choice')
  t.equal(kindOf({ type: 'array', items: { type: 'string' } }), 'lines')
  t.equal(kindOf({ type: 'object', additionalProperties: { type: 'object' } }), 'map')
  const budget = { then: { type: 'array', items: { type: 'object' } }, else: { type: 'object', properties: {} } }
  t.equal(kindOf(budget), 'variants')
  t.same(variantsOf(budget).map(emptyOf), [{}, []])
})
