// Reads the chunks of a Gemini upstream's stream.
import type { EmitEvent } from '../canonical/answer.ts'
import type { StreamDecoder } from '../canonical/codec.ts'
import { exactJson } from '../canonical/json.ts'
import type { Payload } from '../protocol.ts'
import { AnswerReader } from './answer-decode.ts'

export class GeminiStreamDecoder implements StreamDecoder {
  readonly #reader: AnswerReader

  constructor(id: string) {
    this.#reader = new AnswerReader(id)
  }

  push(event: Payload, emit: EmitEvent): void {
    this.#reader.read(event.data.includes('"functionCall"') ? exactJson(event) : event.json(), emit)
  }

  end(emit: EmitEvent): void {
    this.#reader.end(emit)
  }

  finished(): boolean {
    return this.#reader.finished()
  }
}
