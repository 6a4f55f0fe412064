// What OpenAI's operations have in common that answer as a whole: errors as in chat, and no stream.
import type { Payload, Protocol, StreamWatch } from '../protocol.ts'
import { openaiChat } from '../openai-chat.ts'

/** Whoever streams where nobody asked for it does not speak this. */
const noStream: StreamWatch = { see: () => 'invalid', missing: () => [], finished: false, complete: false }

/** A protocol with whole answers alone: what is one, what it says of its usage, and where text stands. */
export function whole({ isAnswer, readUsage, text, readUsageFromTail = () => undefined }: Pick<Protocol, 'isAnswer' | 'readUsage' | 'text'> & Partial<Pick<Protocol, 'readUsageFromTail'>>): Protocol {
  const { text: _text, ...base } = openaiChat
  return {
    ...base,
    endEvent: undefined,
    watch: () => noStream,
    chunksOf: () => [],
    collect: () => ({ add: () => {}, result: () => undefined }),
    isAnswer,
    readUsage,
    readUsageFromTail,
    askForUsage: () => undefined,
    withoutUsage: () => undefined,
    answerBytes: () => 0,
    ...(text && { text })
  }
}

/** Whether a body has a list by that name, and no error. */
export function hasList(message: Payload, name: string): boolean {
  const { lens } = message
  return lens !== undefined && lens.type(name) === 'array' && (!lens.has('error') || lens.type('error') === 'null')
}
