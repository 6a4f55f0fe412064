// POST /v1/moderations: a text that contains a category's name is flagged for it.
import { hash } from 'node:crypto'
import { jsonAnswer } from '../answer.ts'
import type { Answer } from '../answer.ts'
import type { Call, Endpoint } from '../endpoint.ts'
import { takeFromAny } from '../directive.ts'
import { invalid, isObject, isString, missing, parseObject } from '../fields.ts'
import { Dice } from '../words/prose.ts'
import { countTokens } from '../words/tokens.ts'
import { readModel } from './models.ts'

/** https://platform.openai.com/docs/api-reference/moderations/create */
export const moderations: Endpoint = { method: 'POST', path: '/v1/moderations', answer }

const defaultModel = 'omni-moderation-latest'
const categories = [
  'harassment',
  'harassment/threatening',
  'hate',
  'hate/threatening',
  'illicit',
  'illicit/violent',
  'self-harm',
  'self-harm/intent',
  'self-harm/instructions',
  'sexual',
  'sexual/minors',
  'violence',
  'violence/graphic'
] as const

/** What one verdict is about. */
interface Subject {
  text: string
  kinds: ('text' | 'image')[]
}

function answer(call: Call): Answer {
  const body = parseObject(call.body)
  const model = readModel(call, { model: defaultModel, ...body })
  const subjects = readInput(body['input'])
  const { directive, prompts } = takeFromAny(
    subjects.map(({ text }) => text),
    model,
    'input'
  )
  const prompt = subjects.reduce((sum, { text }) => sum + countTokens(text), 0)
  const results = prompts.map((text, i) => judge(text, subjects[i]!.kinds))
  return jsonAnswer(
    { id: `modr-${hash('sha1', [model, ...prompts].join('\0')).slice(0, 24)}`, model, results },
    directive,
    { prompt }
  )
}

/** The subjects of a request: one for each string, or a single one for an array of parts. */
function readInput(given: unknown): Subject[] {
  if (given === undefined) throw missing('input')
  const entries: unknown[] = Array.isArray(given) ? given : [given]
  if (entries.length > 0 && entries.every(isString)) return entries.map((text) => ({ text, kinds: ['text'] }))
  const texts: string[] = []
  const kinds = new Set<'text' | 'image'>()
  for (const [i, part] of entries.entries()) {
    const {
      type,
      text,
      image_url: image
    } = (isObject(part) ? part : {}) as { type?: unknown; text?: unknown; image_url?: unknown }
    if (type === 'text' && isString(text)) texts.push(text)
    else if (type !== 'image_url' || !isObject(image) || !isString(image['url']))
      throw invalid(`input[${i}]`, 'Expected a string, a text part or an image_url part.')
    kinds.add(type === 'text' ? 'text' : 'image')
  }
  if (kinds.size === 0) throw invalid('input', 'Expected a string, an array of strings or an array of parts.')
  return [{ text: texts.join('\n'), kinds: [...kinds] }]
}

function judge(text: string, kinds: Subject['kinds']): unknown {
  const dice = new Dice(Number.parseInt(hash('sha1', text).slice(0, 8), 16))
  const lower = text.toLowerCase()
  const verdicts = categories.map((category) => [category, lower.includes(category)] as const)
  const scores = verdicts.map(
    ([category, flagged]) => [category, (flagged ? 0.9 : 0) + dice.below(1000) / 100_000] as const
  )
  return {
    flagged: verdicts.some(([, flagged]) => flagged),
    categories: Object.fromEntries(verdicts),
    category_scores: Object.fromEntries(scores),
    category_applied_input_types: Object.fromEntries(categories.map((category) => [category, kinds]))
  }
}
