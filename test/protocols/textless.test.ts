// Members that JavaScript can make neither a text nor a number of, in requests, errors and answers.
import t from 'tap'
import type { AnswerPart } from '../../core/protocols/canonical/answer.ts'
import { callsIn } from '../../core/protocols/counting/hosted-tools.ts'
import { lensOf } from '../../core/bodies/lens.ts'
import { countOf } from '../../core/protocols/counting/count.ts'
import { fromGemini } from '../../core/protocols/gemini/schema-decode.ts'
import { protocols } from '../../core/protocols/index.ts'
import { encodeAnswer } from '../../core/protocols/openai-responses/answer-encode.ts'
import { unifiedRerank } from '../../core/protocols/openai/rerank.ts'

const textless = { toString: 0 }

t.test('errors are read whatever their members are', (t) => {
  const names = [
    'type',
    'code',
    'status',
    'message',
    'param',
    'details',
    'reason',
    'domain',
    'error_code',
    'unsupported'
  ]
  for (const [name, protocol] of Object.entries(protocols)) {
    const error = Object.fromEntries(names.map((member) => [member, 'x']))
    for (const member of names)
      for (const odd of [textless, [textless]]) {
        const inside = { ...error, [member]: odd }
        for (const body of [
          inside,
          { error: inside },
          { error: { ...error, details: inside } },
          { error: { ...error, details: [inside] } },
          [{ error: inside }]
        ])
          t.doesNotThrow(() => protocol.readError(body, {}), `${name}: ${JSON.stringify(body)}`)
      }
  }
  t.end()
})

t.test('what has no type is no call', (t) => {
  t.same(callsIn([{ type: 'web_search_call' }, { type: textless }, { type: [textless] }]), { web_search: 1 })
  t.end()
})

t.test('numbers of requests and answers are read whatever they are', (t) => {
  for (const odd of [textless, [textless]]) {
    t.equal(countOf(lensOf(Buffer.from(JSON.stringify({ n: odd })))!, 'n'), 1)
    const config = JSON.stringify({ generationConfig: { candidateCount: odd } })
    t.doesNotThrow(() => protocols.gemini.watch(lensOf(Buffer.from(config))!), config)
    t.same(fromGemini({ type: 'ARRAY', minItems: odd, maxItems: '3' }), {
      type: 'array',
      minItems: odd,
      maxItems: 3
    })
    const ranked = {
      results: [
        { index: odd, relevance_score: odd },
        { index: 0, relevance_score: 1 }
      ]
    }
    t.doesNotThrow(() => unifiedRerank(ranked, { returnDocuments: true, documents: ['a'] }))
    for (const protocol of [protocols.gemini, protocols['openai-completions']]) {
      const collector = protocol.collect()
      for (const index of [odd, 0])
        collector.add({ choices: [{ index, text: 'a' }], candidates: [{ index, content: { parts: [{ text: 'a' }] } }] })
      t.doesNotThrow(() => collector.result())
    }
  }
  t.end()
})

t.test('what has no number is sorted as the least, and spoils the order of nothing else', (t) => {
  const scores = [0.1, null, 0.9, undefined, 0.5, 'x', 0.7]
  const results = scores.map((relevance_score, index) => ({ index, relevance_score }))
  const ranked = unifiedRerank({ results }, { returnDocuments: false, documents: [] }) as { results: typeof results }
  t.strictSame(
    ranked.results.map(({ index }) => index),
    [2, 6, 4, 0, 1, 3, 5]
  )
  for (const [name, list] of [
    ['gemini', 'candidates'],
    ['openai-completions', 'choices']
  ] as const) {
    const collector = protocols[name].collect()
    for (const index of [3, textless, 1, null, 2])
      collector.add({ [list]: [{ index, text: 'a', content: { parts: [{ text: 'a' }] } }] })
    const answer = collector.result() as Record<string, { index: unknown }[]>
    t.same(
      answer[list]!.map(({ index }) => index),
      [textless, 0, 1, 2, 3],
      `${name}: an index that is null is the first`
    )
  }
  t.end()
})

t.test('a count of a schema of Google that is null is one that is not given', (t) => {
  t.strictSame(fromGemini({ type: 'ARRAY', minItems: null, maxItems: 2 }), { type: 'array', maxItems: 2 })
  t.end()
})

t.test('a whole message may have any number of citations', (t) => {
  const citations = Array.from({ length: 200_000 }, () => ({}))
  const events = protocols.anthropic.chunksOf({ content: [{ type: 'text', text: 'a', citations }] })
  t.equal(events.length, citations.length + 6)
  const part: AnswerPart = { type: 'text', text: 'a', citations: citations.map(() => ({ url: 'u', title: '' })) }
  const candidates = [{ parts: [part, part], finish: { reason: 'stop' as const } }]
  const made = encodeAnswer(
    { id: 'a', candidates, usage: undefined },
    { id: 'a', created: 0, model: 'm', request: {}, usage: true }
  )
  const [message] = made['output'] as [{ content: [{ annotations: unknown[] }] }]
  t.equal(message.content[0].annotations.length, 2 * citations.length)
  t.end()
})
