// The audio operations: a text becomes sound, and sound becomes text.
import type { ParameterSchema } from '../contract/operation.ts'
import type { ServedOperation } from '../contract/served.ts'

/** https://platform.openai.com/docs/api-reference/audio/createSpeech */
export const speech: ServedOperation = {
  name: 'audio.speech',
  endpoint: 'audio',
  summary: 'Speaks a text; the sound comes as it is made.',
  method: 'POST',
  paths: ['/v1/audio/speech'],
  protocol: 'openai-speech',
  body: 'json',
  model: { in: 'body', name: 'model' },
  stream: { in: 'body', name: 'stream_format', is: 'sse' },
  answers: ['bytes'],
  media: /^\s*(?:audio\/|(?:application|binary)\/octet-stream\b)/i,
  upstream: { openai: { protocol: 'openai-speech', method: 'POST', target: () => '/audio/speech' } },
  metering: { outputLimits: [], characters: 'input' },
  dear: true,
  required: ['model', 'input', 'voice'],
  parameters: {
    model: { type: 'string', description: 'A model of the model list.' },
    input: { type: 'string', description: 'What is to be said.' },
    voice: { description: 'The name of a voice.' },
    instructions: { type: 'string', description: 'How it is to be said.' },
    response_format: {
      type: 'string',
      enum: ['mp3', 'opus', 'aac', 'flac', 'wav', 'pcm'],
      default: 'mp3',
      description: 'The form of the sound.'
    },
    speed: { type: 'number', minimum: 0.25, maximum: 4, default: 1, description: 'How fast.' },
    stream_format: {
      type: 'string',
      enum: ['audio', 'sse'],
      default: 'audio',
      description: 'Plain sound, or server-sent events with pieces of it.'
    }
  }
}

const heard: Readonly<Record<string, ParameterSchema>> = {
  model: { type: 'string', description: 'A model of the model list.' },
  file: { type: 'string', format: 'binary', description: 'The sound.' },
  prompt: { type: 'string', description: 'Words that help to understand it.' },
  response_format: {
    type: 'string',
    enum: ['json', 'text', 'srt', 'verbose_json', 'vtt'],
    default: 'json',
    description: 'The form of the text.'
  },
  temperature: { type: 'number', minimum: 0, maximum: 1, description: 'Sampling temperature.' }
}

/** What transcriptions and translations have in common. */
const hearing = {
  endpoint: 'audio',
  method: 'POST',
  protocol: 'openai-transcriptions',
  body: 'form',
  model: { in: 'body', name: 'model' },
  answers: ['json', 'bytes'],
  media: /^\s*(?:text\/(?!html\b)|application\/(?:x-subrip|octet-stream)\b)/i,
  metering: { outputLimits: [], sound: true },
  required: ['model', 'file']
} as const satisfies Partial<ServedOperation>

/** https://platform.openai.com/docs/api-reference/audio/createTranscription */
export const transcriptions: ServedOperation = {
  ...hearing,
  name: 'audio.transcriptions',
  summary: 'Writes down what is said.',
  paths: ['/v1/audio/transcriptions'],
  stream: { in: 'body', name: 'stream' },
  upstream: { openai: { protocol: 'openai-transcriptions', method: 'POST', target: () => '/audio/transcriptions' } },
  parameters: {
    ...heard,
    language: { type: 'string', description: 'The language that is spoken, in two letters.' },
    stream: { type: 'boolean', default: false, description: 'Answers with server-sent events.' },
    'timestamp_granularities[]': {
      type: 'array',
      items: { type: 'string', enum: ['word', 'segment'] },
      description: 'Times of words or segments, in `verbose_json`.'
    }
  }
}

/** https://platform.openai.com/docs/api-reference/audio/createTranslation */
export const translations: ServedOperation = {
  ...hearing,
  name: 'audio.translations',
  summary: 'Writes down in English what is said in another language.',
  paths: ['/v1/audio/translations'],
  upstream: { openai: { protocol: 'openai-transcriptions', method: 'POST', target: () => '/audio/translations' } },
  parameters: heard
}
