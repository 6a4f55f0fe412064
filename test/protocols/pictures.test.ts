// Pictures are counted by the structure of the answer that has them, in however many pieces it comes.
import t from 'tap'
import { Message } from '../../core/contract/message.ts'
import { openaiImages } from '../../core/protocols/openai/images.ts'
import { Lens } from '../../core/bodies/lens.ts'

const request = new Lens(Buffer.from('{}'))
const large = 'A'.repeat(40_000)

/** Pictures of an answer that comes in runs of so many bytes. */
function counted(text: string, run: number): number | undefined {
  const tally = openaiImages.tally!(request)
  const bytes = Buffer.from(text)
  for (let at = 0; at < bytes.length; at += run) tally.see(new Message('bytes', bytes.subarray(at, at + run)))
  return tally.read().image
}

const answers: readonly [string, number, string][] = [
  ['as it is usual', 2, JSON.stringify({ created: 1, data: [{ b64_json: large }, { b64_json: large }] })],
  [
    'with spaces',
    2,
    JSON.stringify({ created: 1, data: [{ b64_json: large }, { url: 'https://a.example/1' }] }, null, 2)
  ],
  ['with spaces before colons', 1, `{"data" : [ {"b64_json" : "${large}"} ] }`],
  ['with both forms', 1, JSON.stringify({ data: [{ url: 'https://a.example/1', b64_json: large }] })],
  [
    'with addresses elsewhere',
    1,
    JSON.stringify({
      usage: { details: { url: 'x', b64_json: 'y' } },
      data: [{ b64_json: large, source: { url: 'x' }, more: [{ url: 'x' }] }],
      links: [{ url: 'x' }]
    })
  ],
  [
    'with a text of JSON',
    1,
    JSON.stringify({
      data: [{ revised_prompt: '{"data":[{"url":"x"},{"url":"y"}]} \\"b64_json\\": \\\\', b64_json: large }]
    })
  ],
  ['with slashes escaped', 2, JSON.stringify({ data: [{ b64_json: large }, { url: 'a/b/c' }] }).replaceAll('/', '\\/')],
  ['with a key spelled in escapes', 2, `{"d\\u0061ta":[{"b64_json":"${large}"},{}]}`],
  ['with data in data', 1, JSON.stringify({ other: { data: [{}, {}] }, data: [{ data: [{}, {}], b64_json: large }] })],
  ['without any', 0, JSON.stringify({ data: [], text: large })]
]

for (const [name, count, text] of answers) {
  t.test(`an answer ${name}`, (t) => {
    for (const run of [1, 7, 1000, 65_536]) t.equal(counted(text, run), count, `in runs of ${run}`)
    t.end()
  })
}
