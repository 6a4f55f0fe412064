// Embeddings in the form that was asked for, whichever way an upstream answers.
import fc from 'fast-check'
import t from 'tap'
import { EmbeddingRewriter } from '../../core/protocols/openai/embedding-format.ts'
import type { EmbeddingFormat } from '../../core/protocols/openai/embedding-format.ts'

function rewritten(text: string, wanted: EmbeddingFormat, size = text.length): string {
  const rewriter = new EmbeddingRewriter(wanted)
  const bytes = Buffer.from(text)
  const out: Buffer[] = []
  for (let at = 0; at < bytes.length; at += size) out.push(rewriter.push(bytes.subarray(at, at + size)))
  return Buffer.concat(out).toString()
}

const encoded = (vector: readonly number[]): string => Buffer.from(Float32Array.from(vector).buffer).toString('base64')

t.test('numbers become base64 and base64 numbers, and nothing else changes a byte', (t) => {
  const numbers =
    '{ "object":"list" , "note":"\\"embedding\\":[1]", "data":[ {"embedding" :\n[ 0.5, -1e-3 ,2],"index":0}, {"index":1,"embedding":[]} ],"usage":{"prompt_tokens":3}}'
  const strings = numbers
    .replace('[ 0.5, -1e-3 ,2]', `"${encoded([0.5, -0.001, 2])}"`)
    .replace('"embedding":[]}', '"embedding":""}')
  for (let size = 1; size <= numbers.length; size++) {
    t.equal(rewritten(numbers, 'base64', size), strings, `${size} bytes at a time`)
    t.equal(
      rewritten(strings, 'float', size),
      strings
        .replace(/"embedding" :\n"[^"]*"/, '"embedding" :\n[0.5,-0.001,2]')
        .replace('"embedding":""}', '"embedding":[]}')
    )
    t.equal(rewritten(numbers, 'float', size), numbers)
    t.equal(rewritten(strings, 'base64', size), strings)
  }
  t.end()
})

t.test('any vectors come through both ways as the same single-precision numbers', async () => {
  const vectors = fc.array(
    fc.array(
      fc.float({ noNaN: true, noDefaultInfinity: true }).map((number) => number + 0),
      { maxLength: 20 }
    ),
    { maxLength: 5 }
  )
  fc.assert(
    fc.property(vectors, fc.integer({ min: 1, max: 50 }), (all, size) => {
      const body = JSON.stringify({ data: all.map((embedding, index) => ({ index, embedding })) })
      const there = rewritten(body, 'base64', size)
      const strings = (JSON.parse(there) as { data: { embedding: string }[] }).data.map(({ embedding }) => embedding)
      const back = (JSON.parse(rewritten(there, 'float', size)) as { data: { embedding: number[] }[] }).data.map(
        ({ embedding }) => embedding
      )
      return (
        strings.every((text, index) => text === encoded(all[index]!)) &&
        back.every((vector, index) => encoded(vector) === encoded(all[index]!))
      )
    }),
    { numRuns: 500 }
  )
})

t.test('what is no vector is an error and not a wrong one', (t) => {
  for (const text of [
    '{"embedding":[1,"a"]}',
    '{"embedding":[1,,2]}',
    '{"embedding":[1,]}',
    '{"embedding":[[1]]}',
    `{"embedding":[${'1'.repeat(100)}]}`,
    '{"embedding":[null]}'
  ]) {
    t.throws(() => rewritten(text, 'base64'), /a vector/, text)
  }
  t.throws(() => rewritten('{"embedding":"AAA="}', 'float'), /a vector is cut/)
  t.end()
})
