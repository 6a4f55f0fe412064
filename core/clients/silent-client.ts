// A client that is not there, for requests of the gateway's own: it sends a body from memory, and keeps no answer.
import type { BodySource } from './body-source.ts'
import type { Client } from './client.ts'

/** Takes an answer as a client does, and keeps nothing of it. */
export class SilentClient implements Client {
  readonly gone = false
  headSent = false
  origin: string | undefined = undefined
  onDrain: (() => void) | null = null
  onGone: (() => void) | null = null

  reply(): void {
    this.headSent = true
  }

  head(): void {
    this.headSent = true
  }

  write(): boolean {
    return true
  }

  end(): void {}

  cut(): void {}
}

/** A body that is complete. */
export function sourceOf(body: Buffer): BodySource {
  return {
    receive(sink) {
      if (body.length > 0) sink.data(body)
      sink.end()
    },
    pause: () => {},
    resume: () => {},
    abandon: () => {}
  }
}
