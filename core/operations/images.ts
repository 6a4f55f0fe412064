// The operations that make, edit and vary pictures.
import type { ParameterSchema } from '../contract/operation.ts'
import type { ServedOperation } from '../contract/served.ts'

/**
 * The most tokens of one picture, where tokens are charged: 6,240 for high quality, and the partial pictures of a
 * stream.
 */
const mostPictureTokens = 8192

/** What all operations on pictures have in common. */
const picturing = {
  endpoint: 'images',
  method: 'POST',
  protocol: 'openai-images',
  model: { in: 'body', name: 'model' },
  metering: { outputLimits: [], mostOutput: mostPictureTokens, counts: ['n'], pictures: true },
  dear: true
} as const satisfies Partial<ServedOperation>

const common: Readonly<Record<string, ParameterSchema>> = {
  model: { type: 'string', description: 'A model of the model list.' },
  n: { type: 'integer', minimum: 1, default: 1, description: 'How many pictures.' },
  size: { type: 'string', examples: ['1024x1024'], description: 'Width and height in pixels, or `auto`.' },
  response_format: {
    type: 'string',
    enum: ['url', 'b64_json'],
    description: 'By address or in the answer, where the model leaves the choice.'
  },
  user: { type: 'string', description: 'Your own identifier of the end user.' }
}

const made: Readonly<Record<string, ParameterSchema>> = {
  ...common,
  prompt: { type: 'string', description: 'What is to be seen.' },
  quality: { type: 'string', description: 'As the model knows it: `low`, `high`, `hd`, …' },
  background: { type: 'string', description: '`transparent`, `opaque` or `auto`.' },
  output_format: { type: 'string', description: '`png`, `jpeg` or `webp`.' },
  stream: { type: 'boolean', default: false, description: 'Answers with server-sent events.' },
  partial_images: {
    type: 'integer',
    minimum: 0,
    maximum: 3,
    description: 'How many unfinished pictures a stream shows before each.'
  }
}

/** https://platform.openai.com/docs/api-reference/images/create */
export const imageGenerations: ServedOperation = {
  ...picturing,
  name: 'images',
  summary: 'Makes pictures of a prompt, as a whole or as a stream that shows them while they are made.',
  paths: ['/v1/images/generations'],
  body: 'json',
  stream: { in: 'body', name: 'stream' },
  upstream: { openai: { protocol: 'openai-images', method: 'POST', target: () => '/images/generations' } },
  required: ['model', 'prompt'],
  parameters: made
}

/** https://platform.openai.com/docs/api-reference/images/createEdit */
export const imageEdits: ServedOperation = {
  ...imageGenerations,
  name: 'images.edits',
  summary: 'Changes pictures as a prompt says; a form with the pictures, or JSON with their addresses.',
  paths: ['/v1/images/edits'],
  body: 'either',
  upstream: { openai: { protocol: 'openai-images', method: 'POST', target: () => '/images/edits' } },
  parameters: {
    ...made,
    image: { type: 'string', format: 'binary', description: 'The picture; several are `image[]`.' },
    mask: { type: 'string', format: 'binary', description: 'Transparent where the picture is to be changed.' }
  }
}

/** https://platform.openai.com/docs/api-reference/images/createVariation */
export const imageVariations: ServedOperation = {
  ...picturing,
  name: 'images.variations',
  summary: 'Makes variations of a picture.',
  paths: ['/v1/images/variations'],
  body: 'form',
  upstream: { openai: { protocol: 'openai-images', method: 'POST', target: () => '/images/variations' } },
  required: ['model', 'image'],
  parameters: { ...common, image: { type: 'string', format: 'binary', description: 'The picture.' } }
}
