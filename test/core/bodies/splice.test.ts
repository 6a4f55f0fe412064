// Members that are changed, added and left out of the bytes of an object.
import fc from 'fast-check'
import t from 'tap'
import { Lens } from '../../../core/bodies/lens.ts'
import { withMembers } from '../../../core/bodies/splice.ts'

t.test('the object is as if its members had been set and deleted, wherever they stand', async (t) => {
  const key = fc.constantFrom('a', 'b', 'c', 'd', 'e')
  const value = fc.oneof(fc.integer(), fc.constant('x, "y"'), fc.constant([1, { a: 2 }]))
  const space = fc.constantFrom('', ' ', '\n  ')
  const property = fc.property(
    fc.dictionary(key, value, { noNullPrototype: true }),
    fc.dictionary(key, fc.option(value, { nil: undefined }), { noNullPrototype: true }),
    space,
    (object, changes, blank) => {
      const members = Object.entries(object).map(
        ([name, inner]) => `${blank}${JSON.stringify(name)}${blank}:${blank}${JSON.stringify(inner)}${blank}`
      )
      const bytes = Buffer.from(`{${members.join(',') || blank}}`)
      const texts = Object.entries(changes).map(([name, inner]): [string, string | undefined] => [
        name,
        inner === undefined ? undefined : JSON.stringify(inner)
      ])
      const made = Buffer.concat(withMembers(new Lens(bytes), new Map(texts))).toString()
      const expected = Object.fromEntries(
        Object.entries({ ...object, ...changes }).filter(([, inner]) => inner !== undefined)
      )
      const sorted = (value: object): string =>
        JSON.stringify(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)))
      return sorted(JSON.parse(made) as object) === sorted(expected)
    }
  )
  t.doesNotThrow(() => fc.assert(property, { numRuns: 500 }))
})
