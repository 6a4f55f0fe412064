// Members that JavaScript can make neither a text nor a number of, in requests, errors and answers.
import t from 'tap'
import { callsIn } from '../../core/protocols/counting/hosted-tools.ts'
import { lensOf } from '../../core/bodies/lens.ts'
import { countOf } from '../../core/protocols/counting/count.ts'
import { fromGemini } from '../../core/protocols/gemini/schema-decode.ts'
import { protocols } from '../../core/protocols/index.ts'
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
