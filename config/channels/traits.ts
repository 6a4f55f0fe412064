// The setting `traits` of a channel: what is special about the models behind it.
import type { ChannelTraits } from '../../core/catalogue/catalogue.ts'
import type { OptionSchemas, OptionValues } from '../../core/options/schema.ts'

/** The traits of a channel's models. The default is what the newest models have. */
export const traitsShape = {
  output_limit: {
    type: 'string',
    enum: ['max_completion_tokens', 'max_tokens'],
    description: 'Chat: the member that the longest answer is told in; max_completion_tokens unless said otherwise.'
  },
  developer_role: { type: 'boolean', description: 'Chat: the role `developer` is known.' },
  reasoning_content: { type: 'boolean', description: 'Chat: thoughts are wanted back as `reasoning_content`.' },
  thinking: {
    type: 'string',
    enum: ['effort', 'budget'],
    description: 'Messages, Gemini and Converse: how much to think is told in words, or in tokens.'
  },
  sampling: {
    type: 'string',
    enum: ['both', 'one', 'none'],
    description: 'Messages and Converse: of temperature and top_p the model takes both, one or none.'
  },
  json_schema: {
    type: 'string',
    enum: ['format', 'tool'],
    description: 'Messages and Converse: answers of a schema are asked for as such, or with a tool.'
  },
  grammars: {
    type: 'string',
    enum: ['describe', 'refuse'],
    description:
      "All but Responses: a tool's grammar is told in its description, or such tools are refused; describe unless said otherwise."
  },
  prefill: {
    type: 'boolean',
    description: "The last turn may be the model's own, to be continued; otherwise the model is told to go on with it."
  },
  thinks: { type: 'boolean', description: 'Responses: false for models that never think.' },
  guardrail: {
    type: 'string',
    examples: ['gr1a2b3c4d5e:1'],
    pattern: '^.{1,2048}:(?:DRAFT|[0-9]{1,8})$',
    patternErrorMessage: 'the id or ARN of a guardrail, a colon, and its version',
    description: 'Converse: the guardrail that every request is held to.'
  },
  vectors: {
    type: 'string',
    enum: ['single', 'list'],
    description:
      'Embeddings of Bedrock: the models take a single text at a time, or a list, where their ids do not say it, as those of ARNs.'
  },
  fetches_urls: { type: 'boolean', description: 'Gemini: pictures and documents are fetched from any address.' }
} as const satisfies OptionSchemas

/** The traits that an entry describes. */
export function traitsOf(traits: OptionValues<typeof traitsShape>): ChannelTraits {
  const {
    output_limit,
    developer_role,
    reasoning_content,
    thinking,
    sampling,
    json_schema,
    grammars,
    prefill,
    thinks,
    guardrail,
    vectors,
    fetches_urls
  } = traits
  const given = {
    maxTokensMember: output_limit,
    developerRole: developer_role,
    replaysReasoning: reasoning_content,
    thinking,
    sampling,
    jsonSchema: json_schema,
    grammars,
    prefill,
    thinks,
    guardrail,
    vectors,
    fetchesUrls: fetches_urls
  }
  return Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined))
}
