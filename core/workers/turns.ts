// Turns of work in the background: the supervisor has those of all workers, who ask for them.
import type { Crowded, Turn, Turns } from '../exchange/background/pool.ts'
import type { Caller, Served } from '../store/distant/line.ts'

/** The turns as a worker has them, which the supervisor decides about. */
export function turnsThere(line: Caller): Turns {
  let last = 0
  return {
    // The supervisor counts those that wait.
    waiting: 0,
    async enter(tenant) {
      const id = ++last
      const crowded = await line.ask<Crowded | undefined>('enterTurns', id, tenant)
      if (crowded) return crowded
      const comes = line.ask<void>('turn', id)
      // Who is ended before waits for it no more.
      comes.catch(() => {})
      return { comes, leave: () => line.tell('leaveTurn', id) }
    }
  }
}

/** What one worker has taken of the turns. */
export class TurnsOfWorker {
  readonly #turns: Turns
  readonly #taken = new Map<number, Turn>()

  constructor(turns: Turns) {
    this.#turns = turns
  }

  /** What the worker calls. */
  get served(): Served {
    return {
      enterTurns: async (id: number, tenant: string): Promise<Crowded | undefined> => {
        const turn = await this.#turns.enter(tenant)
        if (typeof turn === 'string') return turn
        this.#taken.set(id, turn)
        return undefined
      },
      turn: (id: number) => this.#taken.get(id)?.comes,
      leaveTurn: (id: number) => {
        this.#taken.get(id)?.leave()
        this.#taken.delete(id)
      }
    }
  }

  /** The worker has ended. */
  close(): void {
    for (const turn of this.#taken.values()) turn.leave()
    this.#taken.clear()
  }
}
