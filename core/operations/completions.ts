// The operation of OpenAI's older interface, which continues a text.
import { openaiTiers } from './service-tiers.ts'
import type { ServedOperation } from '../contract/served.ts'

/** https://platform.openai.com/docs/api-reference/completions */
export const completions: ServedOperation = {
  name: 'completions',
  endpoint: 'completions',
  summary: 'Continues a text, as a whole or as a stream of events.',
  method: 'POST',
  paths: ['/v1/completions'],
  protocol: 'openai-completions',
  body: 'json',
  model: { in: 'body', name: 'model' },
  stream: { in: 'body', name: 'stream' },
  upstream: { openai: { protocol: 'openai-completions', method: 'POST', target: () => '/completions' } },
  metering: {
    outputLimits: ['max_tokens'],
    leastOutput: 0,
    counts: ['n', 'best_of'],
    prompts: 'prompt',
    tiers: openaiTiers
  },
  parsed: { prompt: 4 * 1024 * 1024 },
  required: ['model', 'prompt'],
  parameters: {
    model: { type: 'string', description: 'A model of the model list.' },
    prompt: { description: 'A text, a list of texts, or tokens: a list of numbers, or a list of such lists.' },
    max_tokens: { type: 'integer', minimum: 0, default: 16, description: 'Most tokens of each continuation.' },
    stream: {
      type: 'boolean',
      default: false,
      description: 'Answers with server-sent events, ended by `data: [DONE]`.'
    },
    n: { type: 'integer', minimum: 1, maximum: 128, default: 1, description: 'How many continuations of each prompt.' },
    temperature: { type: 'number', minimum: 0, maximum: 2, description: 'Sampling temperature.' },
    top_p: { type: 'number', minimum: 0, maximum: 1, description: 'Nucleus sampling.' },
    stop: { description: 'A text or a list of texts at which a continuation ends.' },
    user: { type: 'string', description: 'Your own identifier of the end user.' }
  }
}
