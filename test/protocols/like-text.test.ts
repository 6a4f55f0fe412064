// Events that are like an earlier one are read without being parsed: what is read is what parsing them gives.
import fc from 'fast-check'
import t from 'tap'
import { Message } from '../../core/contract/message.ts'
import { ChatStreamDecoder } from '../../core/protocols/openai-chat/stream-decode.ts'
import { LikeText } from '../../core/protocols/text/like-text.ts'
import type { AnswerEvent } from '../../core/protocols/canonical/answer.ts'
import { codePoint } from '../kit/code-point.ts'

/** What a decoder makes of chunks; `remembers`: none of them is like the one before, which changes nothing but that. */
function decoded(chunks: readonly string[], remembers: boolean): unknown[] {
  const decoder = new ChatStreamDecoder('x')
  const made: AnswerEvent[] = []
  const emit = (event: AnswerEvent): void => void made.push(event)
  try {
    for (const [at, chunk] of chunks.entries()) {
      const other = remembers ? chunk : chunk.replace(/\}$/, `,"z${at}":${at}}`)
      decoder.push(Message.event(other), emit)
    }
    decoder.end(emit)
  } catch (error) {
    return [...made, String(error)]
  }
  return made
}

const text = fc.oneof(
  fc.string({ unit: codePoint, maxLength: 8 }),
  fc.constantFrom('word', '"', '\\', '\n', '🙂', '\ud83d', '\ude42', 'content', '}', 'sluice')
)
const usage = { prompt_tokens: 3, completion_tokens: 4, total_tokens: 7 }
const delta = fc.oneof(
  { weight: 8, arbitrary: text.map((content) => ({ content })) },
  { weight: 3, arbitrary: text.map((content) => ({ role: 'assistant', content, refusal: null })) },
  text.map((content) => ({ content, reasoning_content: 'why' })),
  text.map((reasoning_content) => ({ content: '', reasoning_content })),
  text.map((refusal) => ({ refusal })),
  text.map((content) => ({ role: content, content })),
  fc.constant({ tool_calls: [{ index: 0, id: 'c', function: { name: 'f', arguments: '{}' } }] })
)
const choice = fc.tuple(
  delta,
  fc.constantFrom(0, 0, 0, 1),
  fc.constantFrom<object>({}, {}, {}, { finish_reason: null }, { finish_reason: null }, { finish_reason: 'stop' }),
  fc.constantFrom<object>({}, {}, {}, { logprobs: null }, { logprobs: { content: [{ token: 'a', logprob: -1 }] } })
)
const chunk = fc
  .tuple(
    choice,
    fc.option(choice, { freq: 9 }),
    fc.constantFrom<object>({}, {}, { usage: null }, { usage }, { usage: { ...usage, completion_tokens: 5 } }),
    fc.constantFrom('id', 'id', 'id', 'other'),
    fc.constantFrom(0, 0, 0, 1)
  )
  .map(([first, second, more, id, space]) =>
    JSON.stringify(
      {
        id,
        choices: [first, ...(second ? [second] : [])].map(([delta, index, finish, logprobs]) => ({
          index,
          delta,
          ...logprobs,
          ...finish
        })),
        ...more
      },
      undefined,
      space
    ).replaceAll('\n', ' ')
  )

t.test('a stream of chunks says the same, whether they are like each other or not', async (t) => {
  let texts = 0
  fc.assert(
    fc.property(fc.array(chunk, { maxLength: 12 }), fc.nat({ max: 3 }), (chunks, repeated) => {
      const all = chunks.flatMap((chunk) => Array<string>(1 + repeated).fill(chunk))
      const made = JSON.stringify(decoded(all, true))
      if (made !== JSON.stringify(decoded(all, false))) throw new Error(made)
      if (made.includes('"delta"')) texts++
    }),
    { numRuns: process.env['SLUICE_LONG'] ? 20_000 : 800 }
  )
  t.ok(texts > 500, `${texts} with text`)
})

t.test('the text is found where it is read, also among others of the same name', async (t) => {
  const textOf = (json: unknown): unknown => (json as { a: { text?: unknown }[] }).a[0]?.text
  const like = LikeText.of(Buffer.from('{"text":"x","a":[{"text":"x","text":"x"},{"text":"x"}],"t":"x"}'), textOf)!
  t.equal(
    like.read(Buffer.from('{"text":"x","a":[{"text":"x","text":"new \\"one\\" \\u00e9é"},{"text":"x"}],"t":"x"}')),
    'new "one" éé'
  )
  for (const other of [
    '{"text":"y","a":[{"text":"x","text":"x"},{"text":"x"}],"t":"x"}',
    '{"text":"x","a":[{"text":"y","text":"x"},{"text":"x"}],"t":"x"}',
    '{"text":"x","a":[{"text":"x","text":"y"},{"text":"y"}],"t":"x"}',
    '{"text":"x","a":[{"text":"x","text":1},{"text":"x"}],"t":"x"}',
    '{"text":"x","a":[{"text":"x","text":"a\nb"},{"text":"x"}],"t":"x"}',
    '{"text":"x","a":[{"text":"x","text":"y"},{"text":"x"}],"t":"x"',
    ''
  ])
    t.equal(like.read(Buffer.from(other)), undefined, other)
  t.equal(LikeText.of(Buffer.from('{"a":[{"text":7,"b":"x"}]}'), textOf), undefined)
  t.equal(LikeText.of(Buffer.from(`{"a":[{"text":"${'x'.repeat(5000)}"}]}`), textOf), undefined)
  t.equal(LikeText.of(Buffer.from(`{"b":[${'"x",'.repeat(30)}0],"a":[{"text":"x"}]}`), textOf), undefined)
})
