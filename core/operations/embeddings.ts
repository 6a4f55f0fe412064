// The operation of OpenAI's embeddings.
import type { Stage } from '../contract/contract.ts'
import { GatewayError } from '../contract/contract.ts'
import type { ServedOperation } from '../contract/served.ts'
import { vectors } from './conversation.ts'
import { EmbeddingRewriter } from '../protocols/openai/embedding-format.ts'
import type { EmbeddingFormat } from '../protocols/openai/embedding-format.ts'

/** https://platform.openai.com/docs/api-reference/embeddings */
export const embeddings: ServedOperation = {
  name: 'embeddings',
  endpoint: 'embeddings',
  vectors: true,
  summary: 'Makes vectors of texts.',
  method: 'POST',
  paths: ['/v1/embeddings'],
  protocol: 'openai-embeddings',
  body: 'json',
  model: { in: 'body', name: 'model' },
  upstream: vectors(),
  stageAtUpstream: ({ body }) => inForm(body.fields.string('encoding_format') === 'base64' ? 'base64' : 'float'),
  metering: { outputLimits: [], prompts: 'input' },
  required: ['model', 'input'],
  parameters: {
    model: { type: 'string', description: 'A model of the model list.' },
    input: { description: 'A text, a list of texts, or tokens: a list of numbers, or a list of such lists.' },
    encoding_format: {
      type: 'string',
      enum: ['float', 'base64'],
      default: 'float',
      description: 'The form of the vectors, whichever the upstream answers in.'
    },
    dimensions: {
      type: 'integer',
      minimum: 1,
      description: 'Length of the vectors, where the model lets it be chosen.'
    },
    input_type: {
      type: 'string',
      description:
        'What the vectors are for, where the model makes different ones: `search_document`, `search_query`, `classification`, `clustering`.'
    },
    user: { type: 'string', description: 'Your own identifier of the end user.' }
  }
}

/**
 * Rewrites vectors into the form that the client asked for. Some upstreams know only one form, and some SDKs ask for
 * the other one without their user's knowledge.
 */
function inForm(wanted: EmbeddingFormat): Stage {
  const rewriter = new EmbeddingRewriter(wanted)
  return {
    takes: 'runs',
    map(message, emit) {
      try {
        emit(message.withData(rewriter.push(message.data)))
      } catch (cause) {
        throw new GatewayError('upstream_bad_response', 'The upstream sent a vector that cannot be read.', { cause })
      }
    }
  }
}
