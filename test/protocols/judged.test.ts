// Whatever clients ask, every vendor takes what becomes of it: random requests of each protocol, judged by what vendors
// refuse.
import fc from 'fast-check'
import t from 'tap'
import { parseJson } from '../../core/protocols/translation/translation.ts'
import type { Traits } from '../../core/protocols/translation/translation.ts'
import { writeJson } from '../../core/protocols/canonical/json.ts'
import { asks } from '../kit/asks.ts'
import { judges } from '../kit/judges.ts'
import { asking, sent } from '../kit/pairs.ts'

const runs = { numRuns: process.env['SLUICE_LONG'] === '1' ? 20_000 : 80 }

const channels: readonly (readonly [string, Traits])[] = [
  ['C', {}],
  ['C', { replaysReasoning: true, developerRole: true }],
  ['R', {}],
  ['M', {}],
  ['M', { thinking: 'budget', jsonSchema: 'tool' }],
  ['M', { sampling: 'none' }],
  ['G', {}]
]

/** What a vendor is asked; undefined where it is refused for a schema that Anthropic takes in no form but a tool. */
function told(pair: string, request: unknown, traits: Traits): unknown {
  try {
    return sent(pair, request, traits).body
  } catch (error) {
    if (pair.endsWith('M') && traits.jsonSchema !== 'tool' && /members of any name/.test(String(error)))
      return undefined
    throw error
  }
}

for (const [client, requests] of Object.entries(asks)) {
  t.test(`what clients of ${client} ask is asked of every vendor as it wants to be asked`, async (t) => {
    for (const [upstream, traits] of channels.filter(([upstream]) => upstream !== client)) {
      t.doesNotThrow(
        () =>
          fc.assert(
            fc.property(requests, (request) => {
              const body = told(`${client}→${upstream}`, parseJson(JSON.stringify(request)), traits)
              if (body === undefined) return
              const complaints = judges[upstream]!(JSON.parse(writeJson(body)))
              if (complaints.length > 0) throw new Error(`${complaints.join('; ')}: ${JSON.stringify(body)}`)
            }),
            runs
          ),
        `${client}→${upstream} ${JSON.stringify(traits)}`
      )
    }
  })
}

t.test('the judges complain', async (t) => {
  t.same(judges['C']!(sent('M→C', asking['M']).body), [])
  for (const [upstream, body] of Object.entries({
    C: { messages: [{ role: 'tool', tool_call_id: 'a', content: 'x' }] },
    R: { input: [{ type: 'function_call', call_id: '', name: 'f' }] },
    G: { contents: [{ role: 'model', parts: [] }] },
    M: { max_tokens: 1, messages: [{ role: 'user', content: [{ type: 'text', text: ' ' }] }] }
  }))
    t.not(judges[upstream]!(body).length, 0, upstream)
})
