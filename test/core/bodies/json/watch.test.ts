// What a scan notes of names that are watched: each that is there is mentioned, wherever and however it is written, and
// a usual body mentions none.
import fc from 'fast-check'
import t from 'tap'
import { scan, scannable, Scanning, Watch } from '../../../../core/bodies/json/scan.ts'
import { Lens } from '../../../../core/bodies/lens.ts'

const stretch = 64 * 1024
const names = ['file_id', 'container', 'fileuri', 'x']
const watch = new Watch(names)
const other = new Watch(['image_url'])

/** A key in one of the ways in which a client may write it, in the JSON of a text. */
const written = fc
  .tuple(
    fc.oneof(fc.constantFrom(...names), fc.stringMatching(/^[a-z_]{0,12}$/)),
    fc.nat({ max: 40 }),
    fc.constantFrom('as it is', 'capital', 'escaped')
  )
  .map(([name, at, how]) => {
    const place = at % (name.length || 1)
    const letter = name[place] ?? ''
    if (how === 'as it is' || letter === '') return name
    const put = how === 'capital' ? letter.toUpperCase() : `\\u${letter.charCodeAt(0).toString(16).padStart(4, '0')}`
    return `${name.slice(0, place)}${put}${name.slice(place + 1)}`
  })
const { value } = fc.letrec<{ value: string }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 4 },
    fc.constantFrom('1', 'null', '"file_id"', '"\\"x\\":"'),
    fc.array(tie('value'), { maxLength: 3 }).map((items) => `[${items.join(', ')}]`),
    fc
      .array(fc.tuple(written, tie('value')), { maxLength: 3 })
      .map((members) => `{${members.map(([key, value]) => `"${key}" : ${value}`).join(',')}}`)
  )
}))

/** Every key of a value, at any depth, in small letters. */
function keysOf(value: unknown): string[] {
  if (Array.isArray(value)) return value.flatMap(keysOf)
  if (typeof value !== 'object' || value === null) return []
  return Object.entries(value).flatMap(([key, inner]) => [key.toLowerCase(), ...keysOf(inner)])
}

t.test('no key that is watched is missed, at any depth, in capitals or with escapes', (t) => {
  let [there, absent] = [0, 0]
  fc.assert(
    fc.property(value, (json) => {
      const text = `{"top":${json}}`
      const lens = new Lens(Buffer.from(text))
      const found = keysOf(JSON.parse(text)).some((key) => names.includes(key))
      if (found) there++
      if (!lens.mayMention(watch)) absent++
      return !found || lens.mayMention(watch)
    }),
    { numRuns: 3000 }
  )
  t.ok(there > 200, `${there} texts had one`)
  t.ok(absent > 200, `${absent} texts were known to have none`)
  t.end()
})

t.test('the values of members are no keys, and other watches have bits of their own', (t) => {
  const lens = new Lens(Buffer.from('{"a":["file_id",{"b":"container"}],"Image_URL":{}}'))
  t.notOk(lens.mayMention(watch))
  t.ok(lens.mayMention(other))
  t.end()
})

t.test('a usual request mentions nothing that is looked for elsewhere', (t) => {
  const usual = '"role":1,"content":[{"type":2,"text":3}],"name":4,"tool_calls":[{"function":{"arguments":"{}"}}]'
  const lens = new Lens(
    Buffer.from(`{"model":"m","messages":[{${usual}}],"temperature":0,"max_tokens":1,"stream":true}`)
  )
  t.notOk(lens.mayMention(watch))
  t.notOk(lens.mayMention(other))
  t.end()
})

t.test('a key that the end of a stretch cuts is not missed, copied or in place, in turns with other scans', (t) => {
  for (let cut = -2; cut <= '"file_id"'.length + 2; cut++) {
    const head = '{"a":"'
    const text = `${head}${' '.repeat(stretch - head.length - '",'.length - cut)}","file_id":1}`
    const copied = Buffer.from(text)
    copied.copy(scannable)
    for (const bytes of [copied, scannable.subarray(0, copied.length)]) {
      const scanning = new Scanning(bytes)
      let found = scanning.advance(0)
      scan(Buffer.from('{"b":1}'))
      found ??= scanning.advance(Infinity)
      t.ok(found!.mentioned & watch.bit, `cut at ${cut}`)
      t.notOk(scan(Buffer.from('{"b":1}')).mentioned & watch.bit, 'the next scan begins with nothing')
    }
  }
  t.end()
})

t.test('a watch that there is no room for, or of another copy of the code, is never sure', (t) => {
  const many = Array.from({ length: 8 }, () => new Watch(['y']))
  const lens = new Lens(Buffer.from('{"a":1}'))
  t.ok(lens.mayMention(many.at(-1)!))
  t.notOk(lens.mayMention(watch))
  t.ok(lens.mayMention({ bit: other.bit }))
  t.end()
})
