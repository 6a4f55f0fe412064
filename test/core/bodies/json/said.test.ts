// What a scan counts of a member: the text that its strings say, and its pictures, sounds and files, wherever a stretch
// ends and whoever scans meanwhile.
import fc from 'fast-check'
import t from 'tap'
import { scan, scannable, Scanning } from '../../../../core/bodies/json/scan.ts'

const stretch = 64 * 1024
const silent = ['type', 'role', 'media_type', 'mimeType']
const media = ['url', 'data', 'file_data', 'image_url', 'b64_json']

/** A value as it is written; a string without its quotes. */
type Node =
  | { string: string }
  | { number: string }
  | { word: string }
  | { list: readonly Node[] }
  | { object: readonly (readonly [string, Node])[] }

const string = fc
  .array(
    fc.oneof(
      fc.constantFrom('a', ' ', '\\"', '\\\\', '\\n', '\\t', '\\/', '\\u0041', '\\u20aC', 'é', '🙂', 'iVBORw0KGgo'),
      fc.tuple(fc.constantFrom('x', '\\n', '\\"', 'é'), fc.nat({ max: 700 })).map(([of, times]) => of.repeat(times)),
      fc.nat({ max: 1100 }).map((times) => 'A'.repeat(times))
    ),
    { maxLength: 6 }
  )
  .map((pieces) => ({ string: pieces.join('') }))
const key = fc.constantFrom(...silent, ...media, 'result', 'text', 'content', 'date', 'urls', 'Type', 'd\\u0061ta')
const { node } = fc.letrec<{ node: Node }>((tie) => ({
  node: fc.oneof(
    { maxDepth: 3, withCrossShrink: true },
    string,
    fc.constantFrom('0', '-1.5e+7', '12345').map((number) => ({ number })),
    fc.constantFrom('true', 'false', 'null').map((word) => ({ word })),
    fc.array(tie('node'), { maxLength: 3 }).map((list) => ({ list })),
    fc
      .uniqueArray(fc.tuple(key, tie('node')), { maxLength: 4, selector: ([name]) => name })
      .map((object) => ({ object }))
  )
}))

function written(node: Node): string {
  if ('string' in node) return `"${node.string}"`
  if ('number' in node) return node.number
  if ('word' in node) return node.word
  if ('list' in node) return `[${node.list.map(written).join(', ')}]`
  return `{${node.object.map(([key, value]) => `"${key}" : ${written(value)}`).join(',')}}`
}

/**
 * What is said, by the rules: a string under a key is what the key's kind says, what comes after its first value is
 * text.
 */
function countOf(top: Node): { said: number; media: number } {
  const counted = { said: 0, media: 0 }
  let latest = ''
  const count = (node: Node): void => {
    if ('list' in node) node.list.forEach(count)
    else if ('object' in node)
      for (const [key, value] of node.object) {
        latest = key
        count(value)
      }
    else if ('number' in node) counted.said += 4
    else if ('string' in node) {
      const near = Buffer.from(node.string).subarray(0, 256).toString('latin1')
      // An escaped quote counts where it is near as a whole.
      const opaque = !/^(?:\\[^"]|[^\\])*?(?:[ \x80-\xff]|\\")/.test(near)
      const long = Buffer.byteLength(node.string) >= 1024
      if (opaque && (media.includes(latest) || (latest === 'result' && long))) counted.media++
      else if (!silent.includes(latest))
        counted.said += Buffer.byteLength(node.string.replaceAll(/\\u..../g, '€').replaceAll(/\\./g, 'x'))
    }
    latest = ''
  }
  count(top)
  return counted
}

function counted(found: ReturnType<typeof scan>): object {
  const { said, media } = found.members.get('messages')!
  return { said, media }
}

t.test('text, numbers and pictures are counted as they are said, wherever a stretch ends', (t) => {
  let [pictures, texts] = [0, 0]
  fc.assert(
    fc.property(node, fc.nat(), (node, seed) => {
      const text = `"model":"m","messages":${written(node)},"user":"nobody, with a text of its own","n":1}`
      const at = seed % Buffer.byteLength(text)
      const expected = countOf(node)
      if (expected.media > 0) pictures++
      if (expected.said > 0) texts++
      const cut = Buffer.from(`{${' '.repeat(stretch - 1 - at)}${text}`)
      const bodies = [Buffer.from(`{${text}`), cut]
      for (const bytes of bodies) {
        bytes.copy(scannable)
        for (const where of [bytes, scannable.subarray(0, bytes.length)]) {
          const scanning = new Scanning(where)
          let found = scanning.advance(0)
          scan(Buffer.from('{"data":{"url":"AAAA"},"messages":[{"role":"user","content":"x"}]}'))
          found ??= scanning.advance(Infinity)
          if (JSON.stringify(counted(found!)) !== JSON.stringify(expected))
            throw new Error(`${JSON.stringify(counted(found!))}, not ${JSON.stringify(expected)}: ${text}`)
        }
      }
    }),
    { numRuns: process.env['SLUICE_LONG'] ? 20_000 : 1000 }
  )
  t.ok(pictures > 10 && texts > 200, `${pictures} with pictures, ${texts} with text`)
  t.end()
})

t.test('a key of a kind that the end of a stretch cuts is known all the same', (t) => {
  for (const key of ['file_data', 'url', 'media_type'])
    for (let at = 0; at <= key.length + 3; at++) {
      const head = '{"messages":[{'
      const bytes = Buffer.from(`${head}${' '.repeat(stretch - head.length - at)}"${key}":"${'A'.repeat(5000)}"}]}`)
      t.same(counted(scan(bytes)), { said: 0, media: key === 'media_type' ? 0 : 1 }, `${key} cut at ${at}`)
    }
  t.end()
})

t.test('the kind of a key ends with its value, also with one that has no strings', (t) => {
  const text = 'word '.repeat(100)
  for (const value of ['[]', '{}', '[[]]', '[{}]', 'null', 'true', '1', '""', '"x"'])
    for (const key of ['type', 'data']) {
      const bytes = Buffer.from(`{"messages":[{"${key}":${value}},"${text}"]}`)
      t.ok((counted(scan(bytes)) as { said: number }).said >= text.length, `${key}: ${value}`)
    }
  t.end()
})
