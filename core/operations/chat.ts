// The operation of OpenAI's Chat Completions.
import { openaiTiers } from './service-tiers.ts'
import { chatTools } from '../protocols/counting/hosted-tools.ts'
import type { ServedOperation } from '../contract/served.ts'
import { conversation } from './conversation.ts'

/** https://platform.openai.com/docs/api-reference/chat */
export const chat: ServedOperation = {
  name: 'chat',
  endpoint: 'chat',
  summary: 'Completes a conversation, as a whole or as a stream of events.',
  method: 'POST',
  paths: ['/v1/chat/completions'],
  protocol: 'openai-chat',
  body: 'json',
  model: { in: 'body', name: 'model' },
  stream: { in: 'body', name: 'stream' },
  upstream: conversation,
  metering: {
    outputLimits: ['max_completion_tokens', 'max_tokens', 'max_output_tokens'],
    counts: ['n'],
    prediction: 'prediction',
    tools: chatTools,
    tiers: openaiTiers
  },
  required: ['model', 'messages'],
  parameters: {
    model: { type: 'string', description: 'A model of the model list.' },
    messages: {
      type: 'array',
      items: { type: 'object' },
      description: 'The conversation so far: `role` is one of `system`, `developer`, `user`, `assistant`, `tool`.'
    },
    stream: {
      type: 'boolean',
      default: false,
      description: 'Answers with server-sent events, ended by `data: [DONE]`.'
    },
    stream_options: {
      type: 'object',
      description: '`include_usage: true` adds an event with the usage before the end.'
    },
    temperature: { type: 'number', minimum: 0, maximum: 2, description: 'Sampling temperature.' },
    top_p: { type: 'number', minimum: 0, maximum: 1, description: 'Nucleus sampling.' },
    max_completion_tokens: {
      type: 'integer',
      minimum: 1,
      description: 'Most tokens of the answer, reasoning included.'
    },
    max_tokens: { type: 'integer', minimum: 1, description: 'The older name of `max_completion_tokens`.' },
    tools: { type: 'array', items: { type: 'object' }, description: 'Functions that the model may call.' },
    tool_choice: { description: 'Which tool is called: `auto`, `none`, `required`, or one by name.' },
    response_format: { type: 'object', description: 'The form of the answer, such as `{"type": "json_object"}`.' },
    stop: { description: 'A text or a list of texts at which the answer ends.' },
    n: { type: 'integer', minimum: 1, maximum: 128, default: 1, description: 'How many answers.' },
    user: { type: 'string', description: 'Your own identifier of the end user.' }
  }
}
