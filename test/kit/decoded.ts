// What decoders tell of streams, each event as one line.
import { Message } from '../../core/contract/message.ts'
import type { AnswerEvent } from '../../core/protocols/canonical/answer.ts'
import { upstreamCodecs } from '../../core/protocols/translation/codecs.ts'
import type { UpstreamCodecName } from '../../core/protocols/translation/codecs.ts'
import { Untranslatable } from '../../core/protocols/translation/translation.ts'

type Json = Record<string, unknown>

/** An event of an answer as one line. */
function lineOf(event: AnswerEvent): string {
  switch (event.type) {
    case 'start':
      return `start ${event.id}`
    case 'open': {
      const { opening } = event
      const more =
        opening.type === 'tool_call' ? ` ${opening.id} ${opening.name}${opening.custom ? ' custom' : ''}` : ''
      const kind = opening.type === 'media' ? `media ${JSON.stringify(opening.media.source)}` : opening.type
      return `open ${event.candidate}/${event.part} ${kind}${more}`
    }
    case 'delta':
      return `${event.part}: ${event.text}${event.logprobs ? ` (${event.logprobs.map(({ token }) => token).join()})` : ''}`
    case 'cite':
      return `cite ${event.part} ${event.citation.url} ${event.citation.start}-${event.citation.end}`
    case 'close':
      return `close ${event.part}${event.text && ` ${event.text}`}${event.proof ? ` (${event.proof.kind} ${event.proof.value})` : ''}`
    case 'usage':
      return 'usage'
    case 'finish':
      return `finish ${event.candidate} ${event.finish.reason}`
    case 'end':
      return 'end'
  }
}

/** What a decoder tells of a stream; the last line is why it refuses it, if it does. */
export function told(upstream: UpstreamCodecName, events: readonly (Json | string)[]): string[] {
  const decoder = upstreamCodecs[upstream].decodeStream('id')
  const lines: string[] = []
  const emit = (event: AnswerEvent): void => void lines.push(lineOf(event).trim())
  try {
    for (const event of events)
      decoder.push(Message.event(typeof event === 'string' ? event : JSON.stringify(event), ''), emit)
    decoder.end(emit)
  } catch (error) {
    if (!(error instanceof Untranslatable)) throw error
    lines.push(`refused: ${error.message}`)
  }
  return lines
}

/** The last line of a stream with an event of another protocol, and of one that was cut. */
export const foreign = 'refused: The upstream sent an event that is not of its protocol.'
export const cut = 'refused: The upstream ended its answer before it was complete.'
