// Items that an input refers to by their id are found as a parser would find them, however they are spelled and however
// large the input is.
import assert from 'node:assert/strict'
import fc from 'fast-check'
import t from 'tap'
import { ItemScan } from '../../../core/operations/responses/item-references.ts'
import type { FoundItem } from '../../../core/operations/responses/item-references.ts'
import { used } from '../../kit/turns.ts'

const labels = ['type', 'id', 'role', 'status', 'phase', 'object']
const isSomething = (value: unknown): boolean =>
  typeof value === 'object' && value !== null ? Object.keys(value).length > 0 : value !== null && value !== ''

/** What a parser finds. */
function expected(input: readonly unknown[]): string[] {
  const ids = input.flatMap((item) => {
    if (typeof item !== 'object' || item === null || Array.isArray(item)) return []
    const { type, id } = item as { type?: unknown; id?: unknown }
    const named = typeof type === 'string'
    if (typeof id !== 'string') return []
    const says = Object.entries(item).some(([name, value]) => !labels.includes(name) && isSomething(value))
    return type === 'item_reference' || !says || (!named && !('role' in item) && !('content' in item)) ? [id] : []
  })
  return [...new Set(ids)]
}

function found(text: string, until = Infinity): readonly string[] {
  const bytes = Buffer.from(text)
  const scan = new ItemScan(bytes, ({ reference }) => reference)
  for (;;) {
    const items = scan.advance(until)
    if (!items) continue
    for (const { id, from, to } of items) assert.equal(JSON.parse(bytes.toString('utf8', from, to)).id, id)
    return [...new Set(items.map(({ id }) => id!))]
  }
}

/** Every letter as an escape. */
const spelled = (text: string): string =>
  text.replace(/[a-z_]/g, (letter) => `\\u00${letter.charCodeAt(0).toString(16)}`)

const text = fc.oneof(
  fc.constantFrom(
    'item_reference',
    'message',
    'msg_1',
    'a"b',
    '\\',
    '"',
    '\\"',
    '{"type":"item_reference"',
    '[]',
    '',
    '__proto__',
    'constructor'
  ),
  fc.string({ unit: 'grapheme', maxLength: 20 })
)
const leaf = fc.oneof(text, fc.constantFrom(null, true, 1.5))
const tree: fc.Arbitrary<unknown> = fc.letrec<{ tree: unknown }>((tie) => ({
  tree: fc.oneof(
    { depthSize: 'small' },
    leaf,
    fc.array(tie('tree'), { maxLength: 3 }),
    fc.dictionary(fc.constantFrom('type', 'id', 'x', 'content', 'a"b'), tie('tree'), { maxKeys: 3 })
  )
})).tree
const item = fc.oneof(
  tree,
  fc.record(
    { type: fc.oneof(text, fc.constant(null)), id: leaf, role: leaf, content: tree, more: tree },
    { requiredKeys: [] }
  )
)

t.test('as a parser does, in one go or in slices', async (t) => {
  fc.assert(
    fc.property(fc.array(item, { maxLength: 6 }), fc.constantFrom(0, 1), fc.boolean(), (input, space, slices) => {
      const written = JSON.stringify(input, null, space)
      assert.deepEqual(found(written, slices ? 0 : Infinity), expected(input), written)
    }),
    { numRuns: 2000 }
  )
  t.pass('2000 inputs')
})

t.test('however it is spelled', async (t) => {
  t.same(found(`[{"${spelled('type')}":"${spelled('item_reference')}","${spelled('id')}":"m\\u0073g_1"}]`), ['msg_1'])
  t.same(
    found(
      '[{"id":"msg_1"},{"id":"msg_2","role":"user","content":"x"},{"type":null,"id":"msg_3"},{"type":"message","id":"msg_4"}]'
    ),
    ['msg_1', 'msg_3', 'msg_4']
  )
})

t.test('every object of a list has its place, and no more are found than are asked for', async (t) => {
  const list = Buffer.from('[{"id":"a"}, "text", {"id":"b","role":"user"}, {"x":[{"id":"c"}]}, {"id":"d"}]')
  const all = new ItemScan(list, () => true).advance(Infinity)!
  t.same(
    all.map(({ id, place, reference }) => [id, place, reference]),
    [
      ['a', 0, true],
      ['b', 1, true],
      [undefined, 2, false],
      ['d', 3, true]
    ]
  )
  t.same(
    all.map(({ from, to }) => list.toString('utf8', from, to)),
    ['{"id":"a"}', '{"id":"b","role":"user"}', '{"x":[{"id":"c"}]}', '{"id":"d"}']
  )
  t.equal(new ItemScan(list, () => true, 2).advance(Infinity)!.length, 2)
})

t.test('what is large is gone through in slices of which none is long', async (t) => {
  const size = 8 * 1024 * 1024
  const reference = '{"type":"item_reference","id":"msg_1"}'
  const shapes = [
    `["${'\\\\'.repeat(size / 2)}",${reference}]`,
    `["${'\\"'.repeat(size / 2)}",${reference}]`,
    `[${'{},'.repeat(size / 3)}${reference}]`,
    `["${'x'.repeat(size)}",${reference}]`
  ]
  for (const shape of shapes) {
    const bytes = Buffer.from(shape)
    let longest = Infinity
    for (let turn = 0; turn < 5 && longest >= 50; turn++) {
      const scan = new ItemScan(bytes, ({ reference }) => reference)
      let longestNow = 0
      let items: readonly FoundItem[] | undefined
      while (!items) {
        const began = used()
        items = scan.advance(performance.now() + 4)
        longestNow = Math.max(longestNow, used() - began)
      }
      t.match(items, [{ id: 'msg_1', from: shape.indexOf(reference), to: shape.length - 1 }])
      longest = Math.min(longest, longestNow)
    }
    t.ok(longest < 50, `${longest} ms`)
  }
})
