// What is said of an answer by looking into it is what would be said of it parsed.
import fc from 'fast-check'
import t from 'tap'
import { maxDepth, maxKeyBytes } from '../../core/bodies/lens.ts'
import { Message } from '../../core/contract/message.ts'
import { protocols } from '../../core/protocols/index.ts'

const chat = protocols['openai-chat']

const counts = fc.record(
  { prompt_tokens: fc.nat(), completion_tokens: fc.nat(), cached_tokens: fc.constant(0) },
  { requiredKeys: [] }
)
const usage = fc.oneof(
  counts,
  fc.constant(null),
  fc.constantFrom<unknown>({}, [], 0, 'none', { prompt_tokens: -1, completion_tokens: 1 })
)
const choice = fc.record(
  {
    message: fc.oneof(
      { weight: 6, arbitrary: fc.record({ role: fc.constant('assistant'), content: fc.string() }) },
      fc.constantFrom(null, 'text')
    ),
    usage,
    finish_reason: fc.constantFrom('stop', null, 'error'),
    error: fc.constantFrom<unknown>(null, null, { code: 502 })
  },
  { requiredKeys: [] }
)
/** A value of each member that matters, or something else. */
const members = fc.array(
  fc.oneof(
    fc.tuple(fc.constantFrom('usage', 'usage', 'us\\u0061ge', '"usage'), usage),
    fc.tuple(
      fc.constantFrom('choices', 'choic\\u0065s'),
      fc.oneof(fc.array(choice, { maxLength: 2 }), fc.jsonValue({ maxDepth: 1 }))
    ),
    fc.tuple(fc.constant('error'), fc.constantFrom<unknown>(null, null, {}, 'broken', false)),
    fc.tuple(fc.constant('x_groq'), fc.record({ usage }, { requiredKeys: [] })),
    fc.tuple(fc.constantFrom('id', 'model'), fc.string()),
    fc.tuple(fc.constant('deep'), fc.constant('DEEP')),
    // Longer than a lens reads.
    fc.tuple(fc.constant('x'.repeat(maxKeyBytes + 1)), fc.constant(null))
  ),
  { maxLength: 6 }
)
const payload = fc
  .tuple(members, fc.constantFrom('', ' ', '\n\t'), fc.constantFrom('', '', '', '', '', '', ',', ']', '{}'))
  .map(([members, space, damage]) => {
    const pairs = members.map(
      ([key, value]) => `"${key.replace(/^"/, '\\"')}"${space}:${space}${JSON.stringify(value)}`
    )
    return `${space}{${pairs.join(`,${space}`)}${damage}}${space}`.replace(
      '"DEEP"',
      `${deeper}${']'.repeat(deeper.length)}`
    )
  })

/** Deeper than anything of an upstream is taken for a message. */
const deeper = '['.repeat(maxDepth + 1)

function parsed(text: string): Record<string, unknown> | undefined {
  try {
    const value = JSON.parse(text) as unknown
    // Of two members of a name the last one counts.
    if (JSON.stringify(value).includes(deeper)) return undefined
    return typeof value === 'object' && value !== null && !Array.isArray(value)
      ? (value as Record<string, unknown>)
      : undefined
  } catch {
    return undefined
  }
}

/** As somebody would say it who has parsed it. */
function isAnswer(body: Record<string, unknown> | undefined): boolean {
  const choices = body?.['choices']
  if (!Array.isArray(choices) || body?.['error'] != null) return false
  const has = (choice: any): boolean =>
    typeof choice?.message === 'object' && choice.message !== null && !Array.isArray(choice.message)
  return choices.some(has) && !choices.some((choice) => choice?.error != null || choice?.finish_reason === 'error')
}

t.test(
  'an answer is one exactly when JSON.parse reads it, a choice has a message, and nothing in it is an error',
  async (t) => {
    const seen = { yes: 0, no: 0, without: 0 }
    fc.assert(
      fc.property(payload, (text) => {
        const body = parsed(text)
        const message = new Message('json', Buffer.from(text))
        const wanted = isAnswer(body)
        seen[wanted ? 'yes' : 'no']++
        if (body && !message.lens) seen.without++
        return chat.isAnswer(message) === wanted
      }),
      { numRuns: 3000 }
    )
    t.ok(Math.min(seen.yes, seen.no, seen.without) > 3, JSON.stringify(seen))
  }
)

t.test('usage is what it would be if all had been parsed', async (t) => {
  let found = 0
  fc.assert(
    fc.property(payload, fc.constantFrom('json', 'event'), (text, kind) => {
      const [looked, read] = [new Message(kind, Buffer.from(text)), new Message(kind, Buffer.from(text))]
      read.json()
      const wanted = chat.readUsage(read)
      // Events are searched for the word.
      if (kind === 'event' && text.includes('\\u0061')) return true
      if (wanted !== undefined) found++
      return JSON.stringify(chat.readUsage(looked)) === JSON.stringify(wanted)
    }),
    { numRuns: 3000 }
  )
  t.ok(found > 50, String(found))
})

t.test('an event without its usage is the same but for that, or none when it had nothing else', async (t) => {
  const seen = { same: 0, nothing: 0, less: 0 }
  fc.assert(
    fc.property(payload, (text) => {
      const body = parsed(text)
      const event = new Message('event', Buffer.from(text))
      const made = chat.withoutUsage(event)
      if (!body || !('usage' in body) || !text.includes('"usage"')) return made === undefined
      if (body['usage'] !== null) {
        const inAnswer = Array.isArray(body['choices']) && body['choices'].length > 0
        seen[inAnswer ? 'same' : 'nothing']++
        return made === (inAnswer ? undefined : 'nothing')
      }
      if (!event.lens) return made === undefined
      seen.less++
      const { usage: _usage, ...rest } = body
      return JSON.stringify(JSON.parse(String(made))) === JSON.stringify(rest)
    }),
    { numRuns: 3000 }
  )
  t.ok(Math.min(seen.same, seen.nothing, seen.less) > 3, JSON.stringify(seen))
})
