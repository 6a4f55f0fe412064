// Gemini's methods of a model, for clients of that protocol.
import { geminiTiers } from './service-tiers.ts'
import { geminiTools } from '../protocols/counting/hosted-tools.ts'
import type { BodyEdit } from '../bodies/body.ts'
import type { UpstreamForm } from '../contract/operation.ts'
import type { ServedOperation } from '../contract/served.ts'
import { ListFraming } from '../protocols/gemini/shape.ts'
import { namesOne, toAccount } from './account.ts'
import { conversation, countConverse, vectors } from './conversation.ts'

function pathsOf(method: string): string[] {
  return [`/v1beta/models/{model...}:${method}`, `/v1/models/{model...}:${method}`]
}

/**
 * The paths of a setting in `generationConfig`. Upstreams accept both spellings of both names
 * (https://protobuf.dev/programming-guides/json/).
 */
function setting(camel: string, snake: string): string[] {
  return ['generationConfig', 'generation_config'].flatMap((settings) => [
    `${settings}.${camel}`,
    `${settings}.${snake}`
  ])
}

/** https://ai.google.dev/api/generate-content */
export const generateContent: ServedOperation = {
  name: 'generate',
  endpoint: 'chat',
  summary: 'Completes a conversation in the protocol of Gemini.',
  method: 'POST',
  paths: pathsOf('generateContent'),
  protocol: 'gemini',
  body: 'json',
  model: { in: 'path', name: 'model' },
  upstream: conversation,
  onCandidates: toAccount(
    ['cachedContent', 'cached_content'].map((param) => ({ param, code: 'invalid_field', refers: namesOne }))
  ),
  metering: {
    outputLimits: setting('maxOutputTokens', 'max_output_tokens'),
    counts: setting('candidateCount', 'candidate_count'),
    tools: geminiTools,
    tiers: geminiTiers
  },
  parsed: { generationConfig: 1024 * 1024, generation_config: 1024 * 1024 },
  required: ['contents'],
  parameters: {
    contents: {
      type: 'array',
      items: { type: 'object' },
      description: 'The conversation so far: `role` is `user` or `model`.'
    },
    systemInstruction: { type: 'object', description: 'What the model is told before everything else.' },
    tools: { type: 'array', items: { type: 'object' }, description: 'Functions that the model may call.' },
    toolConfig: { type: 'object', description: 'Which of them it calls.' },
    generationConfig: { type: 'object', description: 'Temperature, limits and form of the answer.' },
    safetySettings: { type: 'array', items: { type: 'object' }, description: 'What is blocked.' }
  }
}

/** https://ai.google.dev/api/generate-content#method:-models.streamgeneratecontent with `alt=sse` */
export const streamGenerateContent: ServedOperation = {
  ...generateContent,
  name: 'generate.stream',
  summary: 'Completes a conversation in the protocol of Gemini, as a stream of events (`alt=sse`).',
  paths: pathsOf('streamGenerateContent'),
  stream: 'always',
  when: (_headers, query) => new URLSearchParams(query).get('alt') === 'sse'
}

/** `streamGenerateContent` without `alt=sse`: the answer is a JSON array. */
export const streamGenerateList: ServedOperation = {
  ...generateContent,
  name: 'generate.list',
  summary:
    'Completes a conversation in the protocol of Gemini, as a JSON array that is written element by element, or with `alt=sse` as a stream of events. ' +
    'An answer that fails ends with its error, and without the closing bracket.',
  paths: pathsOf('streamGenerateContent'),
  stream: 'always',
  framing: () => new ListFraming()
}

/** A method that only upstreams of Gemini's protocol know, unless `more` gives other upstream forms. */
function own(method: string, summary: string, more: Partial<ServedOperation>, bedrock?: UpstreamForm): ServedOperation {
  return {
    name: `generate.${method}`,
    endpoint: 'chat',
    summary,
    method: 'POST',
    paths: pathsOf(method),
    protocol: 'gemini-count',
    body: 'json',
    model: { in: 'path', name: 'model' },
    upstream: {
      gemini: [undefined, 'predict'].map((dialect) => ({
        ...(dialect !== undefined && { dialect }),
        protocol: 'gemini-count',
        method: 'POST',
        target: ({ model }) => `/models/${encodeURIComponent(model)}:${method}`
      })),
      ...(bedrock && { bedrock })
    },
    ...more
  }
}

/** https://ai.google.dev/api/tokens */
export const geminiCountTokens = own(
  'countTokens',
  'Counts the tokens of a conversation before it is sent, or estimates them where no upstream of the model can.',
  { counts: 'totalTokens' },
  {
    ...countConverse,
    // A request may stand in the body as it would be sent.
    adapt(body) {
      const inner = body.original.fields.json('generateContentRequest')
      if (inner !== undefined) body.replace(Buffer.from(JSON.stringify(inner)))
    }
  }
)

/** The largest batch of requests that is parsed, in bytes. Each request names the model. */
const parsed = { requests: 4 * 1024 * 1024 }

/** Sets the model in the body, where it stands beside the path: once at the top, and in each request of a batch. */
function rename(body: BodyEdit, model: string): void {
  const { fields } = body.original
  const requests = fields.json('requests')
  if (fields.has('model')) body.set('model', `models/${model}`)
  if (Array.isArray(requests))
    body.set(
      'requests',
      requests.map((request: object) => ({ ...request, model: `models/${model}` }))
    )
}

/** https://ai.google.dev/api/embeddings */
export const embedContent = own('embedContent', 'Makes the vector of a text, in the protocol of Gemini.', {
  endpoint: 'embeddings',
  vectors: true,
  protocol: 'gemini-embed',
  upstream: vectors({ target: ({ model }) => `/models/${encodeURIComponent(model)}:embedContent`, rename }),
  metering: { outputLimits: [] },
  parsed
})

/** https://ai.google.dev/api/embeddings */
export const batchEmbedContents = own(
  'batchEmbedContents',
  'Makes the vectors of several texts, in the protocol of Gemini.',
  {
    endpoint: 'embeddings',
    vectors: true,
    protocol: 'gemini-embed',
    upstream: vectors({ rename }),
    metering: { outputLimits: [], prompts: 'requests' },
    parsed
  }
)
