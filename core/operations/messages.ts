// The operations of Anthropic's Messages, for clients of that protocol.
import { anthropicTiers } from './service-tiers.ts'
import { invokeBody, predictCount } from '../protocols/anthropic/platforms.ts'
import { countTarget, invokeTokens } from '../protocols/bedrock/count.ts'
import { messagesTools } from '../protocols/counting/hosted-tools.ts'
import type { ServedOperation } from '../contract/served.ts'
import { namesOne, toAccount } from './account.ts'
import { conversation, countConverse } from './conversation.ts'

/** https://platform.claude.com/docs/en/api/messages */
export const messages: ServedOperation = {
  name: 'messages',
  endpoint: 'chat',
  summary: 'Completes a conversation in the protocol of Anthropic, as a whole or as a stream of events.',
  method: 'POST',
  paths: ['/v1/messages'],
  protocol: 'anthropic',
  body: 'json',
  model: { in: 'body', name: 'model' },
  stream: { in: 'body', name: 'stream' },
  upstream: conversation,
  onCandidates: toAccount([
    { param: 'container', code: 'invalid_field', refers: namesOne },
    // A new thread is also a reference: its next request would have to reach the same account.
    { param: 'thread', code: 'unsupported_parameter', refers: () => true }
  ]),
  metering: { outputLimits: ['max_tokens'], leastOutput: 0, tools: messagesTools, tiers: anthropicTiers },
  required: ['model', 'max_tokens', 'messages'],
  parameters: {
    model: { type: 'string', description: 'A model of the model list.' },
    max_tokens: {
      type: 'integer',
      minimum: 0,
      description: 'Most tokens of the answer; with 0 the prompt is written to the cache, and nothing is answered.'
    },
    messages: {
      type: 'array',
      items: { type: 'object' },
      description: 'The conversation so far: `role` is `user` or `assistant`.'
    },
    system: { description: 'What the model is told before everything else: a text, or blocks of text.' },
    stream: {
      type: 'boolean',
      default: false,
      description: 'Answers with server-sent events, ended by `message_stop`.'
    },
    tools: { type: 'array', items: { type: 'object' }, description: 'Tools that the model may call.' },
    tool_choice: { type: 'object', description: 'Which tool is called.' },
    temperature: { type: 'number', minimum: 0, maximum: 1, description: 'Sampling temperature.' },
    thinking: { type: 'object', description: 'Whether and how much the model thinks first.' },
    stop_sequences: { type: 'array', items: { type: 'string' }, description: 'Texts at which the answer ends.' },
    metadata: { type: 'object', description: '`user_id`: your own identifier of the end user.' }
  }
}

/** https://platform.claude.com/docs/en/api/messages-count-tokens */
export const countTokens: ServedOperation = {
  name: 'messages.count_tokens',
  endpoint: 'chat',
  summary: 'Counts the tokens of a message before it is sent, or estimates them where no upstream of the model can.',
  counts: 'input_tokens',
  method: 'POST',
  paths: ['/v1/messages/count_tokens'],
  protocol: 'anthropic-count',
  body: 'json',
  model: { in: 'body', name: 'model' },
  upstream: {
    anthropic: [
      { protocol: 'anthropic-count', method: 'POST', target: () => '/messages/count_tokens' },
      {
        protocol: 'anthropic-count',
        dialect: 'predict',
        method: 'POST',
        target: () => '/models/count-tokens:rawPredict',
        finish: predictCount
      },
      {
        protocol: 'invoke-count',
        dialect: 'invoke',
        method: 'POST',
        target: ({ model }) => countTarget(model),
        counts: 'inputTokens',
        finish(body, headers) {
          invokeBody(body, headers)
          invokeTokens(body)
        }
      }
    ],
    bedrock: countConverse
  },
  required: ['model', 'messages'],
  parameters: {
    model: { type: 'string', description: 'A model of the model list.' },
    messages: { type: 'array', items: { type: 'object' }, description: 'As of a message.' }
  }
}
