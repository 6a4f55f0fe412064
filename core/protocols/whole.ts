// Makes protocols of operations without streams from a protocol with streams, with the same errors.
import type { Payload, Protocol, StreamWatch } from './protocol.ts'

/** The watch for operations without streams: every event is invalid. */
const noStream: StreamWatch = { see: () => 'invalid', missing: () => [], finished: false, complete: false }

/**
 * The base protocol without its streams and its text. `own`: what is an answer, where usage is, and other differences.
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

/** Whether a body has a list of that name, and no error. */
export function hasList(message: Payload, name: string): boolean {
  const { lens } = message
  return lens !== undefined && lens.type(name) === 'array' && (!lens.has('error') || lens.type('error') === 'null')
}
