// Translation of whole bodies, as any thread does it: what is kept, repeated and hidden, and the tables of the docs.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { Message } from '../../core/contract/message.ts'
import type { Keepsake } from '../../core/protocols/canonical/proofs.ts'
import { codecs } from '../../core/protocols/translation/codecs.ts'
import { finishTable } from '../../core/protocols/translation/finish-table.ts'
import { capabilityMatrix, matrixTables } from '../../core/protocols/translation/matrix.ts'
import {
  planOf,
  translateRequest,
  translateWhole,
  unsealRequest
} from '../../core/protocols/translation/request-bytes.ts'
import type { RequestTask, TranslatedRequest } from '../../core/protocols/translation/request-bytes.ts'
import { Asked, StreamTranslation } from '../../core/protocols/translation/translation.ts'
import { answerHead } from '../kit/conversations.ts'
import { asking, refusal, sent } from '../kit/pairs.ts'

type Json = any

const mebi = 1024 * 1024
const task = (client: string, upstream: string, more: Json = {}): RequestTask => ({
  client: client as never,
  upstream: upstream as never,
  head: { model: 'm', streaming: false },
  target: { model: 'up', traits: {} },
  ...more
})
const bytes = (body: unknown): Buffer => Buffer.from(JSON.stringify(body))
const never = (): never => {
  throw new Error('it is asked for nothing')
}
const brought = (body: Json, one: RequestTask): TranslatedRequest =>
  translateRequest(bytes(body), one, never) as TranslatedRequest

t.test('the tables of the docs are those of the code', async (t) => {
  for (const [file, table] of [
    ['MATRIX.md', matrixTables()],
    ['FINISHES.md', finishTable()]
  ] as const)
    t.ok(readFileSync(join(import.meta.dirname, '../../core/protocols', file), 'utf8').includes(table), file)
  const of = (client: string, channel: string): Json =>
    capabilityMatrix().find((pair) => pair.client === client && pair.channel === channel)
  t.strictSame(of('gemini', 'gemini'), { client: 'gemini', channel: 'gemini', passed: true, request: {}, answer: {} })
  const { passed, request, answer } = of('openai-chat', 'gemini')
  t.equal(passed, false)
  t.strictSame(request.seed, { meaning: 'seed', fate: 'carried', member: 'seed' })
  t.match(request.cache_control, { fate: 'dropped' })
  t.notOk('top_k' in of('openai-responses', 'gemini').request, 'what a client cannot ask for')
  t.strictSame(answer.text, { meaning: 'text', fate: 'carried' })
  t.match(of('anthropic', 'openai-responses').request.tool_result_error, { fate: 'adapted', how: /Error/ })
  t.equal(capabilityMatrix().length, 20)
})

t.test('an answer repeats of its request what its protocol repeats, and of a large one short members', async (t) => {
  const body = {
    ...asking['R'],
    instructions: 'i',
    metadata: { a: 'b' },
    tools: [{ type: 'function', name: 'f' }],
    user: 'u',
    top_p: 0.5,
    own: 1
  }
  const repeated = (more: Json = {}): string[] =>
    Object.keys(brought({ ...body, ...more }, task('openai-responses', 'gemini')).repeated)
  const all = ['instructions', 'tools', 'top_p', 'user', 'metadata']
  t.strictSame(repeated(), all)
  t.strictSame(repeated({ input: 'x'.repeat(mebi) }), all, 'its input is not repeated')
  const short = ['top_p', 'user']
  t.strictSame(repeated({ instructions: 'x'.repeat(mebi) }), short)
  t.strictSame(repeated({ instructions: 'x'.repeat(mebi), user: 'u'.repeat(1023), metadata: null }), [
    ...short,
    'metadata'
  ])
  t.strictSame(repeated({ instructions: 'x'.repeat(mebi), user: 'u'.repeat(1024) }), ['top_p'])
  const rest = JSON.stringify(all.map((name) => ({ ...body, instructions: '' })[name as never])).length
  t.strictSame(repeated({ instructions: 'x'.repeat(mebi - rest) }), all, 'up to 1 Mi characters of all')
  t.strictSame(repeated({ instructions: 'x'.repeat(mebi - rest + 1) }), short)
  const chat = brought(
    { ...asking['C'], stream: true, stream_options: { include_usage: true } },
    task('openai-chat', 'gemini')
  )
  t.strictSame(chat.repeated, { stream_options: { include_usage: true } })
})

const proof = { family: 'anthropic', kind: 'signature', value: 's' } as const
const called = {
  ...asking['C'],
  messages: [
    ...asking['C'].messages,
    {
      role: 'assistant',
      content: null,
      tool_calls: [{ id: 'a', type: 'function', function: { name: 'f', arguments: '{}' } }]
    },
    { role: 'tool', tool_call_id: 'a', content: '1' }
  ]
}

t.test('what was kept under ids of calls is asked for once, and put back', async (t) => {
  const one = task('openai-chat', 'anthropic')
  const asked: (readonly string[])[] = []
  const kept: Map<string, Keepsake> = new Map([['a', { thoughts: [{ type: 'reasoning', text: 'Hm', proof }] }]])
  const with_ = translateRequest(bytes(called), one, (calls) => (asked.push(calls), kept)) as TranslatedRequest
  t.strictSame(asked, [['a']])
  const content = ({ body }: TranslatedRequest): Json => JSON.parse(Buffer.from(body).toString()).messages[1].content
  t.match(content(with_)[0], { type: 'thinking', thinking: 'Hm', signature: 's' })
  t.strictSame(
    translateRequest(bytes(called), one, () => undefined),
    ['a'],
    'where it has to be looked up'
  )
  t.equal(content(translateRequest(bytes(called), one, () => new Map()) as TranslatedRequest).length, 1)
  t.match(brought(asking['C'], one), {
    client: 'openai-chat',
    upstream: 'anthropic',
    dropped: [],
    hidesThoughts: false
  })
  const [message] = sent('C→M', called, {}, new Map()).body.messages
  t.equal(message.role, 'user')
})

t.test('a body is brought over and its answer back, in any thread', async (t) => {
  const one = brought(
    { ...asking['C'], tools: [{ type: 'function', function: { name: 'a.b' } }] },
    task('openai-chat', 'openai-responses')
  )
  const { tools } = JSON.parse(Buffer.from(one.body).toString())
  const item = { type: 'function_call', call_id: 'c', name: tools[0].name, arguments: '{"n":12345678901234567890}' }
  const answer = { id: 'r', status: 'completed', output: [item] }
  const plain = structuredClone({ ...one, body: undefined })
  t.equal(planOf(plain as never).upstream, codecs['openai-responses'])
  const made = translateWhole(bytes(answer), plain as never, answerHead)
  const { message } = JSON.parse(Buffer.from(made.body).toString()).choices[0]
  t.strictSame(message.tool_calls[0].function, { name: 'a.b', arguments: item.arguments })
  t.throws(() => translateWhole(Buffer.from('none'), plain as never, answerHead), { code: 'upstream_bad_response' })
  const sealed = {
    messages: [
      {
        role: 'assistant',
        content: [
          { type: 'thinking', thinking: 'Hm', signature: 'sluice1.openai.encrypted..s' },
          { type: 'text', text: 'a' }
        ]
      }
    ]
  }
  const unsealed = unsealRequest(bytes(sealed), 'anthropic')!
  t.equal(unsealed.key, 'messages')
  t.strictSame(JSON.parse(unsealed.json)[0].content, [{ type: 'text', text: 'a' }])
  t.equal(unsealRequest(bytes(asking['M']), 'anthropic'), undefined)
  t.equal(unsealRequest(bytes(sealed), 'openai-chat'), undefined)
})

t.test('a limit is the least of what was asked for and what the model can give', async (t) => {
  const limit = (asked: number | undefined, maxOutputTokens?: number): number | undefined =>
    sent('C→R', { ...asking['C'], max_tokens: asked }, maxOutputTokens === undefined ? {} : { maxOutputTokens }).body
      .max_output_tokens
  t.strictSame(
    [limit(undefined, 100), limit(50, 100), limit(100, 100), limit(101, 100), limit(101)],
    [undefined, 50, 100, 100, 101]
  )
})

t.test(
  'the beginning of an answer is gone on with where the channel can, and asked for in words otherwise',
  async (t) => {
    const body = { ...asking['C'], messages: [...asking['C'].messages, { role: 'assistant', content: 'So' }] }
    const last = (prefill: boolean): Json => sent('C→M', body, { prefill }).body.messages.at(-1)
    t.match([last(true), last(false)], [{ role: 'assistant' }, { role: 'user' }])
    t.equal(sent('C→M', asking['C'], {}).body.messages.length, 1)
  }
)

t.test('a grammar is told in words, or refused where the channel says so', async (t) => {
  const body = (...tools: Json[]): Json => ({ ...asking['R'], tools })
  const plain = { type: 'function', name: 'f' }
  const grammar = { type: 'custom', name: 'c', format: { type: 'grammar', syntax: 'lark', definition: 'x' } }
  t.strictSame(sent('R→M', body(plain, grammar)).dropped, ['tools.format'])
  t.match(refusal('R→M', body(plain, grammar), { grammars: 'refuse' }), {
    code: 'unsupported_parameter',
    param: 'tools[1].format'
  })
  t.equal(refusal('R→M', body(plain, { type: 'custom', name: 'c' }), { grammars: 'refuse' }), undefined)
})

t.test('thoughts that a client does not want to see are left out, but for what proves them', async (t) => {
  const shown = (thinking: Json): Json => {
    const plan = new Asked(codecs.anthropic, { ...asking['M'], thinking }, { model: 'm', streaming: true }).for(
      codecs['openai-responses'],
      { model: 'up', traits: {} }
    ).answer
    const seen: Json[] = []
    const translation = new StreamTranslation(plan, answerHead, (data) => void seen.push(JSON.parse(data)))
    const about = (type: string, more: Json): Json => ({
      type: `response.${type}`,
      item_id: 'i',
      output_index: 0,
      ...more
    })
    const thoughts = { id: 'i', type: 'reasoning', summary: [{ text: 'Hm' }], encrypted_content: 's' }
    for (const event of [
      { type: 'response.created', response: { id: 'r' } },
      about('output_item.added', { item: { ...thoughts, summary: [] } }),
      about('reasoning_summary_text.delta', { delta: 'Hm' }),
      about('output_item.done', { item: thoughts }),
      about('output_item.done', {
        output_index: 1,
        item: { id: 'm', type: 'message', content: [{ type: 'output_text', text: 'a' }] }
      }),
      { type: 'response.completed', response: { id: 'r', status: 'completed', output: [] } }
    ])
      translation.push(Message.event(JSON.stringify(event), event.type))
    t.ok(translation.finished())
    translation.end()
    return seen.flatMap(({ delta }) =>
      delta?.type === undefined ? [] : [`${delta.type} ${delta.thinking ?? delta.text ?? delta.signature}`]
    )
  }
  const sealed = 'signature_delta sluice1.openai.encrypted.i.s'
  t.strictSame(shown({ type: 'adaptive' }), ['thinking_delta Hm', sealed, 'text_delta a'])
  t.strictSame(shown({ type: 'adaptive', display: 'omitted' }), [sealed, 'text_delta a'])
})
