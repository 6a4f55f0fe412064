// Operations that answer as a whole, in the words and with the errors of a protocol that streams.
import type { Payload, Protocol, StreamWatch } from './protocol.ts'

/** Whoever streams where nobody asked for it does not speak this. */
const noStream: StreamWatch = { see: () => 'invalid', missing: () => [], finished: false, complete: false }

/**
 * The base without its streams and its text: what is an answer, and what it says of its usage, is the operation's own.
 */
export function withoutStream(
  base: Protocol,
  own: Pick<Protocol, 'isAnswer' | 'readUsage'> & Partial<Protocol>
): Protocol {
  const { text: _text, usageReader: _reader, eventName: _name, ...shared } = base
  return {
    ...shared,
    endEvent: undefined,
    watch: () => noStream,
    chunksOf: () => [],
    collect: () => ({ add: () => {}, result: () => undefined }),
    askForUsage: () => undefined,
    withoutUsage: () => undefined,
    answerBytes: () => 0,
    ...own
  }
}

/** Whether a body has a list by that name, and no error. */
export function hasList(message: Payload, name: string): boolean {
  const { lens } = message
  return lens !== undefined && lens.type(name) === 'array' && (!lens.has('error') || lens.type('error') === 'null')
}
