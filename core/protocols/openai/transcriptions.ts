// The protocol of OpenAI's transcriptions and translations of speech: JSON, plain text in several forms, or a stream.
import { openaiChat } from '../openai-chat/protocol.ts'
import { asObject, asText } from '../object.ts'
import type { Protocol } from '../protocol.ts'
import { readTranscriptionUsage } from '../usage/audio.ts'
import { transcriptText } from './transcript-text.ts'
import { readSeconds } from '../usage/seconds.ts'
import { LastEventCollector, TypedWatch } from './typed-stream.ts'
import { withoutStream } from '../whole.ts'

const done: ReadonlySet<string> = new Set(['transcript.text.done'])

/** https://platform.openai.com/docs/api-reference/audio/createTranscription */
export const openaiTranscriptions: Protocol = {
  ...withoutStream(openaiChat, {
    isAnswer: (message) => message.lens?.type('text') === 'string',
    // Without usage, `verbose_json` gives the duration of the sound.
    readUsage: ({ lens }) =>
      readTranscriptionUsage(lens?.json('usage')) ?? readSeconds({ seconds: lens?.json('duration') })
  }),
  watch: () => new TypedWatch(done),
  chunksOf(answer) {
    const { text, usage } = asObject(answer) ?? {}
    return [
      JSON.stringify({ type: 'transcript.text.delta', delta: text }),
      JSON.stringify({ type: 'transcript.text.done', text, ...(usage != null && { usage }) })
    ]
  },
  collect: () => new LastEventCollector(done),
  answerBytes: (body) => Buffer.byteLength(asText(asObject(body)?.['text'] ?? asObject(body)?.['delta'])),
  text: transcriptText
}
