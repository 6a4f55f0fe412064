// What requests of each protocol ask for is known by the members that ask for it, so that what an upstream cannot be
// told is named or refused.
import t from 'tap'
import { asking, refusal, sent, wishesOf } from '../kit/pairs.ts'

type Json = any

const chat = (more: Json): Record<string, string[]> => wishesOf('C', { ...asking['C'], ...more })
const gemini = (generationConfig: Json, more: Json = {}): Record<string, string[]> =>
  wishesOf('G', { contents: [{ parts: [{ text: 'Hi' }] }], generationConfig, ...more })

t.test('parameters that the protocols share are asked for by their own names', async (t) => {
  t.strictSame(
    chat({
      max_completion_tokens: 1,
      temperature: 0,
      top_p: 1,
      presence_penalty: 1,
      frequency_penalty: 1,
      seed: 0,
      n: 2,
      user: 'u',
      prompt_cache_key: 'k'
    }),
    {
      max_output_tokens: ['max_completion_tokens'],
      temperature: ['temperature'],
      top_p: ['top_p'],
      presence_penalty: ['presence_penalty'],
      frequency_penalty: ['frequency_penalty'],
      seed: ['seed'],
      candidates: ['n'],
      user: ['user'],
      prompt_cache_key: ['prompt_cache_key']
    }
  )
  t.strictSame(gemini({ maxOutputTokens: 1, temperature: 0, topP: 1, topK: 2, candidateCount: 2, seed: 1 }), {
    max_output_tokens: ['generationConfig.maxOutputTokens'],
    temperature: ['generationConfig.temperature'],
    top_p: ['generationConfig.topP'],
    top_k: ['generationConfig.topK'],
    seed: ['generationConfig.seed'],
    candidates: ['generationConfig.candidateCount']
  })
  t.strictSame(chat({ n: 1, temperature: null }), {}, 'one answer is what everybody gets')
  for (const [member, value] of [
    ['max_completion_tokens', 0],
    ['n', 0],
    ['seed', 'x']
  ] as const)
    t.match(refusal('C→G', { ...asking['C'], [member]: value }), { code: 'invalid_field', param: member })
  t.equal(sent('C→G', { ...asking['C'], n: 3 }).body.generationConfig.candidateCount, 3)
})

t.test('thinking in the words of Messages is understood of chat clients, too', async (t) => {
  const thinking = (value: Json): Record<string, string[]> => chat({ thinking: value })
  t.strictSame(thinking({ type: 'disabled' }), { reasoning_effort: ['thinking'] })
  t.strictSame(thinking({ type: 'enabled', budget_tokens: 1 }), { reasoning_budget: ['thinking.budget_tokens'] })
  t.strictSame(thinking({ type: 'adaptive' }), {})
  t.strictSame(thinking({ type: 'other' }), { hint: ['thinking'] })
  t.ok('reasoning_visible' in thinking({ type: 'adaptive', display: 'omitted' }))
  t.match(refusal('C→M', { ...asking['C'], thinking: { type: 'enabled', budget_tokens: 0 } }), {
    param: 'thinking.budget_tokens'
  })
})

t.test('what Gemini is asked for besides is known by its members', async (t) => {
  t.strictSame(gemini({ stopSequences: ['a'], responseLogprobs: true, logprobs: 2 }), {
    stop: ['generationConfig.stopSequences'],
    logprobs: ['generationConfig.responseLogprobs']
  })
  t.strictSame(gemini({ stopSequences: [], logprobs: 2 }), {})
  const json = 'application/json'
  t.strictSame(gemini({ responseMimeType: json }), { json_object: ['generationConfig.responseMimeType'] })
  for (const schema of ['responseSchema', 'responseJsonSchema'])
    t.strictSame(gemini({ responseMimeType: json, [schema]: {} }), { json_schema: ['generationConfig.responseSchema'] })
  t.strictSame(gemini({ thinkingConfig: { thinkingLevel: 'LOW', thinkingBudget: 0, includeThoughts: false } }), {
    reasoning_effort: ['generationConfig.thinkingConfig.thinkingLevel'],
    reasoning_budget: ['generationConfig.thinkingConfig.thinkingBudget'],
    reasoning_visible: ['generationConfig.thinkingConfig.includeThoughts']
  })
  t.strictSame(gemini({ thinkingConfig: { thinkingLevel: 'THINKING_LEVEL_UNSPECIFIED', thinkingBudget: -1 } }), {})
  const choosing = (mode: string, ...allowedFunctionNames: string[]): Record<string, string[]> =>
    gemini({}, { toolConfig: { functionCallingConfig: { mode, allowedFunctionNames } } })
  const choice = ['toolConfig.functionCallingConfig']
  const allowed = ['toolConfig.functionCallingConfig.allowedFunctionNames']
  t.strictSame(choosing('AUTO'), {})
  for (const one of [choosing('NONE'), choosing('ANY'), choosing('ANY', 'f')])
    t.strictSame(one, { tool_choice: choice })
  t.strictSame(choosing('ANY', 'f', 'g'), { tool_choice: choice, allowed_tools: allowed })
  t.strictSame(choosing('VALIDATED', 'f'), { allowed_tools: allowed })
  t.strictSame(gemini({}, { systemInstruction: { role: 'user', parts: [{ text: 'a' }] } }), {
    system: ['systemInstruction']
  })
  t.strictSame(gemini({}, { systemInstruction: { parts: [] } }), {})
})
