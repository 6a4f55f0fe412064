// Converts a Gemini answer between its forms: whole, as chunks of the same shape, and as a list of chunks.
import { asObject, asObjects, asText, compareNumbers } from '../object.ts'
import type { JsonObject } from '../object.ts'
import type { Collector, StreamFraming } from '../protocol.ts'

type Fields = Record<string, unknown>

/** The payloads that this answer would have been streamed as: one, or the elements of a list. */
export function chunksOf(answer: unknown): string[] {
  return (Array.isArray(answer) ? (answer as unknown[]) : [answer]).map((chunk) => JSON.stringify(chunk))
}

/** Collects chunks into the answer that the call would have returned without streaming. */
export class ChunkCollector implements Collector {
  #head: Fields = {}
  readonly #candidates = new Map<unknown, Fields>()

  add(payload: unknown): void {
    const { candidates, ...head } = asObject(payload) ?? {}
    this.#head = { ...this.#head, ...head }
    for (const { index: given, content, ...rest } of asObjects(candidates)) {
      const index = given ?? 0
      const before = this.#candidates.get(index)
      const parts = [...asObjects(asObject(before?.['content'])?.['parts'])]
      for (const part of asObjects(asObject(content)?.['parts'])) addPart(parts, part)
      this.#candidates.set(index, {
        ...before,
        index,
        ...rest,
        content: { role: 'model', ...asObject(content), parts }
      })
    }
  }

  result(): unknown {
    const candidates = [...this.#candidates.values()].sort((a, b) => compareNumbers(a['index'], b['index']))
    return candidates.length > 0 ? { candidates, ...this.#head } : this.#head
  }
}

/** Adds a part. Text is joined to the part before, if that is unsigned text of the same kind. */
function addPart(parts: JsonObject[], part: JsonObject): void {
  const last = parts.at(-1)
  const goesOn =
    last &&
    typeof last['text'] === 'string' &&
    typeof part['text'] === 'string' &&
    last['thought'] === part['thought'] &&
    last['thoughtSignature'] === undefined
  if (goesOn) parts[parts.length - 1] = { ...last, ...part, text: asText(last['text']) + asText(part['text']) }
  else if (part['text'] !== '' || part['thoughtSignature'] !== undefined || parts.length === 0) parts.push(part)
}

/** Writes a stream as a JSON list, for clients that did not ask for events. */
export class ListFraming implements StreamFraming {
  readonly contentType = 'application/json; charset=UTF-8'
  #begun = false

  event(payload: string): string {
    const before = this.#begun ? ',\r\n' : '['
    this.#begun = true
    return before + payload
  }

  end(): string {
    return this.#begun ? ']' : '[]'
  }

  /** Errors are in a list, too. */
  errorBody(error: unknown): unknown {
    return [error]
  }
}
