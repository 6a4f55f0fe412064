// The section `models` of gateway.yaml: its shape.
import { modelKeys } from '../names.ts'
import { priceShape } from '../prices/prices.ts'
import type { OptionSchema, OptionValue } from '../../core/options/schema.ts'

const tokens = { type: 'integer', minimum: 1, maximum: 1_000_000_000 } as const satisfies Partial<OptionSchema>

export const modelsShape = {
  type: 'object',
  description: 'The public catalogue: models by the name that clients use.',
  propertyNames: modelKeys,
  additionalProperties: {
    type: 'object',
    description: 'One model; with a * at the end of its name, all models whose names begin so and that are not listed.',
    properties: {
      alias: {
        type: 'string',
        minLength: 1,
        examples: ['gpt-5'],
        description: 'The model that this is another name of. It has its price, its channels and all the rest.'
      },
      fallback: {
        type: 'array',
        minItems: 1,
        items: { type: 'string', minLength: 1, description: 'The name of a model.' },
        examples: [['gpt-5', 'claude-sonnet']],
        description:
          'Models that are asked, one after another, when this one has not answered and nothing was shown. Without a `price`, this is only a name, and the first of them is asked first.'
      },
      fallback_on: {
        type: 'array',
        minItems: 1,
        items: {
          type: 'string',
          enum: ['failure', 'context', 'filter'],
          description: 'One kind.'
        },
        default: ['failure'],
        description:
          'What lets the next model be asked: `failure` of all channels of one, or that none can carry the request; `context`, that the prompt is too long for it; `filter`, that its content filter refuses.'
      },
      fallback_embeddings: {
        type: 'boolean',
        default: false,
        description:
          'Whether models stand in for each other for embeddings too, although vectors of two do not compare.'
      },
      channel: {
        type: 'string',
        minLength: 1,
        examples: ['openai'],
        description: 'Of a name with a *: the channel that serves all these models.'
      },
      upstream: {
        type: 'string',
        minLength: 1,
        examples: ['*', 'openai/*'],
        description:
          "Of a name with a *: the upstream's name, with * for what the * stands for. Default: the name without what comes before the last / in front of the *."
      },
      owned_by: { type: 'string', minLength: 1, default: 'sluice', description: 'Shown in the model list.' },
      price: priceShape,
      context_window: { ...tokens, description: 'Tokens of input and output together.' },
      max_output_tokens: { ...tokens, description: 'Tokens of output.' },
      tiers: {
        type: 'array',
        minItems: 1,
        items: { type: 'string', minLength: 1, description: 'The name of one, `default` for the usual one.' },
        examples: [['default'], ['default', 'flex']],
        description: 'The service tiers that requests may ask for. Default: `default`, and those that its price has.'
      },
      state: {
        type: 'string',
        enum: ['upstream', 'gateway'],
        default: 'upstream',
        description:
          'Who keeps responses (`/v1/responses`): upstreams that can, or the gateway, for channels of every protocol. Then `state.key` is needed.'
      },
      created: { type: 'string', format: 'date', default: '2026-01-01', description: 'Shown in the model list.' },
      deprecated: {
        type: 'object',
        description: 'Announced in the headers of every answer.',
        required: ['since'],
        properties: {
          since: { type: 'string', format: 'date', description: 'Not to be used by new clients from then on.' },
          sunset: {
            type: 'string',
            format: 'date',
            description: 'When it is to be switched off; announced, not enforced.'
          },
          replacement: { type: 'string', minLength: 1, description: 'What to use instead.' }
        }
      }
    }
  }
} as const satisfies OptionSchema

/** A model as written in the file, which has passed the check of its shape. */
export type ModelEntry = OptionValue<typeof modelsShape.additionalProperties>
