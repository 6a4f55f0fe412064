// The protocol of OpenAI's speech: sound as bytes, or as events with pieces of it.
import { openaiChat } from '../openai-chat/protocol.ts'
import { plainText } from '../text/plain-text.ts'
import type { Fields, Protocol } from '../protocol.ts'
import { readSpeechUsage } from '../usage/audio.ts'
import { LastEventCollector, TypedWatch } from './typed-stream.ts'
import { withoutStream } from '../whole.ts'

const done: ReadonlySet<string> = new Set(['speech.audio.done'])

/** https://platform.openai.com/docs/api-reference/audio/createSpeech */
export const openaiSpeech: Protocol = {
  ...withoutStream(openaiChat, {
    // The answer is sound, so a JSON body is an error, whatever its status.
    isAnswer: () => false,
    readUsage: (message) => readSpeechUsage(message.lens?.json('usage')),
    text: plainText({ prompt: ['input'] })
  }),
  watch: () => new TypedWatch(done),
  collect: () => new LastEventCollector(done),
  tally: (request) => ({ see: () => {}, read: () => ({ character: charactersOf(request) }) })
}

/** The characters of the text to speak. A surrogate pair counts as one. */
function charactersOf(request: Fields): number {
  const text = request.string('input') ?? ''
  return text.length - (text.match(/[\uD800-\uDBFF][\uDC00-\uDFFF]/g)?.length ?? 0)
}
