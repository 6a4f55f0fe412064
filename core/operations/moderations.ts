// The operation of OpenAI's moderations.
import type { ServedOperation } from '../contract/served.ts'

/** https://platform.openai.com/docs/api-reference/moderations */
export const moderations: ServedOperation = {
  name: 'moderations',
  endpoint: 'moderations',
  summary: 'Judges texts and pictures: a probability and a verdict for each category.',
  method: 'POST',
  paths: ['/v1/moderations'],
  protocol: 'openai-moderations',
  body: 'json',
  model: { in: 'body', name: 'model' },
  upstream: { openai: { protocol: 'openai-moderations', method: 'POST', target: () => '/moderations' } },
  metering: { outputLimits: [], prompts: 'input' },
  required: ['model', 'input'],
  parameters: {
    model: { type: 'string', description: 'A model of the model list.' },
    input: { description: 'A text, a list of texts, or a list of parts with text and pictures.' }
  }
}
