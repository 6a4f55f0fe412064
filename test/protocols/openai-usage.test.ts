// Usage reports become disjoint classes that add up to what the upstream said, and numbers that cannot be counts become
// none.
import fc from 'fast-check'
import t from 'tap'
import { Message } from '../../core/contract/message.ts'
import { protocols } from '../../core/protocols/index.ts'

const chat = protocols['openai-chat']
const read = (usage: unknown, around: object = {}): unknown =>
  chat.readUsage(Message.event(JSON.stringify({ choices: [], usage, ...around })))
const none = { input: 0, cached_input: 0, cache_write: 0, output: 0, reasoning: 0 }

t.test('parts are taken out of their wholes', async (t) => {
  t.strictSame(read({ prompt_tokens: 10, completion_tokens: 5, total_tokens: 15 }), { ...none, input: 10, output: 5 })
  t.strictSame(
    read({
      prompt_tokens: 10500,
      completion_tokens: 320,
      total_tokens: 10820,
      prompt_tokens_details: { cached_tokens: 9000, cache_write_tokens: 500 },
      completion_tokens_details: { reasoning_tokens: 300 }
    }),
    { input: 1000, cached_input: 9000, cache_write: 500, output: 320, reasoning: 300 }
  )
  t.strictSame(
    read({
      prompt_tokens: 100,
      completion_tokens: 60,
      total_tokens: 160,
      prompt_tokens_details: { audio_tokens: 30, image_tokens: 20 },
      completion_tokens_details: { audio_tokens: 10 }
    }),
    { ...none, input: 50, output: 50, audio_input: 30, image_input: 20, audio_output: 10 }
  )
  t.strictSame(
    read({
      prompt_tokens: 10,
      completion_tokens: 5,
      total_tokens: 45,
      completion_tokens_details: { reasoning_tokens: 30 }
    }),
    { ...none, input: 10, output: 35, reasoning: 30 },
    'reasoning that the total counts beside the completion is output too'
  )
})

t.test('explicit zero is zero, missing is missing', async (t) => {
  t.strictSame(read({ prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 }), none)
  for (const usage of [undefined, null, {}, [], 'x', 5, { total_tokens: 7 }])
    t.equal(read(usage), undefined, JSON.stringify(usage))
  t.strictSame(
    read({ prompt_tokens: 9, total_tokens: 11 }),
    { ...none, input: 9, output: 2 },
    'one side follows from the total'
  )
  t.strictSame(read({ prompt_tokens: 9, completion_tokens: 0, prompt_tokens_details: null }), { ...none, input: 9 })
  for (const usage of [{ prompt_tokens: 9 }, { prompt_tokens: 9, completion_tokens: null }, { completion_tokens: 9 }]) {
    t.equal(read(usage), undefined, 'a side that nothing tells of')
  }
})

t.test('numbers that cannot be counts are called insane', async (t) => {
  for (const value of [-1, 0.5, '10', 2 ** 53, 2 ** 53 + 2, true, {}, [3]]) {
    t.equal(read({ prompt_tokens: value, completion_tokens: 1 }), 'insane', String(value))
    t.equal(
      read({ prompt_tokens: 10, completion_tokens: 1, prompt_tokens_details: { cached_tokens: value } }),
      'insane',
      String(value)
    )
  }
  t.equal(read({ prompt_tokens: 10, completion_tokens: 1, prompt_tokens_details: { cached_tokens: 11 } }), 'insane')
  t.equal(
    read({ prompt_tokens: 10, completion_tokens: 1, completion_tokens_details: { reasoning_tokens: 2 } }),
    'insane'
  )
  t.equal(read({ prompt_tokens: 10, total_tokens: 3 }), 'insane', 'the missing side would be negative')
})

t.test('usage is found wherever vendors put it', async (t) => {
  const usage = { prompt_tokens: 3, completion_tokens: 4, total_tokens: 7 }
  const wanted = { ...none, input: 3, output: 4 }
  for (const body of [
    { choices: [{ index: 0, delta: {}, finish_reason: 'stop' }], usage },
    { usage },
    { choices: [], x_groq: { id: 'r', usage } },
    { choices: [{ index: 0, delta: {}, usage }] }
  ]) {
    t.strictSame(chat.readUsage(Message.event(JSON.stringify(body))), wanted)
    t.strictSame(chat.readUsage(Message.event(JSON.stringify(body, null, 1))), wanted, 'with white space')
  }
  const text = { choices: [{ index: 0, delta: { content: 'the word "usage":{"prompt_tokens":1}' } }], usage: null }
  t.equal(chat.readUsage(Message.event(JSON.stringify(text))), undefined, 'text that looks like usage is text')
})

t.test('whatever is reported, classes are never negative and add up to the total', async () => {
  const count = fc.oneof(fc.nat({ max: 100_000 }), fc.constantFrom(undefined, null, -1, 0.5, '7', 2 ** 53))
  const report = fc.record({
    prompt_tokens: count,
    completion_tokens: count,
    total_tokens: count,
    prompt_tokens_details: fc.option(
      fc.record({ cached_tokens: count, cache_write_tokens: count, audio_tokens: count, image_tokens: count })
    ),
    completion_tokens_details: fc.option(fc.record({ reasoning_tokens: count, audio_tokens: count }))
  })
  fc.assert(
    fc.property(report, (usage) => {
      const classes = read(usage) as Record<string, number> | 'insane' | undefined
      if (classes === 'insane' || classes === undefined) return true
      const { reasoning, ...priced } = classes
      const sum = Object.values(priced).reduce((total, part) => total + part, 0)
      const [prompt, completion, total] = [usage.prompt_tokens, usage.completion_tokens, usage.total_tokens].map(
        (value) => (typeof value === 'number' ? value : undefined)
      )
      const parts = prompt !== undefined && completion !== undefined ? prompt + completion : total!
      const whole = Math.max(parts, total ?? 0)
      return (
        Object.values(classes).every((part) => Number.isSafeInteger(part) && part >= 0) &&
        reasoning! <= priced['output']! + (priced['audio_output'] ?? 0) &&
        sum === whole
      )
    }),
    { numRuns: 5000 }
  )
})
