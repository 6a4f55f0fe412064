// Reads a stream of events as it comes. A piece is read when the one before was taken, which holds the gateway back.
import { parsed } from './json.ts'

/** The most characters of one event: what is longer is no answer that a page could show. */
const longest = 32 * 1024 * 1024

/**
 * Calls `take` with the JSON of each event. Resolves when the stream has ended.
 * @throws Error when it breaks off, or an event is too long
 */
export async function readEvents(body: ReadableStream<Uint8Array>, take: (json: unknown) => void): Promise<void> {
  const reader = body.getReader()
  const decoder = new TextDecoder()
  let rest = ''
  for (;;) {
    const { done, value } = await reader.read()
    rest += done ? decoder.decode() : decoder.decode(value, { stream: true })
    if (rest.length > longest) throw new Error('An event of the answer is too long to be shown.')
    const events = rest.split(/\r?\n\r?\n/)
    rest = events.pop()!
    for (const event of events) takeEvent(event, take)
    if (done) return takeEvent(rest, take)
  }
}

function takeEvent(event: string, take: (json: unknown) => void): void {
  const lines = event
    .split(/\r?\n/)
    .flatMap((line) => (line.startsWith('data:') ? [line.slice(5).replace(/^ /, '')] : []))
  if (lines.length === 0) return
  const json = parsed(lines.join('\n'))
  if (json !== undefined) take(json)
}
