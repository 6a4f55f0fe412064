// A worker accepts connections in the place of others while those do not serve.
import { copiesOf } from '../clients/copies.ts'
import type { Server } from '../clients/server.ts'
import type { Logger } from '../telling/log.ts'

/** What one worker accepts for others. */
export class StandIn {
  readonly #server: Pick<Server, 'accept'>
  readonly #log: Logger
  /** What ends it, by the descriptor of the supervisor's copy of the socket. */
  readonly #open = new Map<number, Promise<() => void>>()

  constructor(server: Pick<Server, 'accept'>, log: Logger) {
    this.#server = server
    this.#log = log
  }

  /** Accepts on copies of these sockets from now on, and no more on others. */
  take(descriptors: readonly number[]): void {
    for (const [descriptor, ends] of this.#open)
      if (!descriptors.includes(descriptor)) {
        this.#open.delete(descriptor)
        void ends.then((end) => end())
      }
    for (const descriptor of descriptors)
      if (!this.#open.has(descriptor)) this.#open.set(descriptor, this.#accept(descriptor))
  }

  /** Never rejects. */
  async #accept(descriptor: number): Promise<() => void> {
    try {
      const [copy] = await copiesOf([descriptor])
      return await this.#server.accept(copy!)
    } catch (error) {
      this.#log.warn('connections of a worker that has ended wait for the next one', {
        error: (error as Error).message
      })
      return () => {}
    }
  }
}
