// Renews the slots of a node in portions, so that no other question waits long for them.
import type { Roster } from '../../../watchdog/roster.ts'
import type { Redis } from '../redis/redis.ts'
import type { SharedLease } from './lease.ts'
import { renew } from './scripts.ts'

/** About how many slots a portion renews, and how many portions are under way at a time. */
const [portion, together] = [500, 4]

/** A round over all leases that a node has. */
interface Round {
  left: readonly SharedLease[]
  at: number
  /** Called when the last portion has left: whatever is asked from then on comes behind it. */
  readonly sent: (() => void) | undefined
}

/** The renewals of one node. */
export class Renewals {
  readonly #redis: Pick<Redis, 'ask' | 'hears'>
  readonly #held: Roster<SharedLease>
  readonly #lease: string
  /** The one that has not sent its last portion. */
  #round: Round | undefined

  /** `held`: the leases with slots that were not released. `lease`: how long a slot is kept, in milliseconds. */
  constructor(redis: Pick<Redis, 'ask' | 'hears'>, held: Roster<SharedLease>, lease: number) {
    this.#redis = redis
    this.#held = held
    this.#lease = String(lease * 1000)
  }

  /** Renews all slots, unless that is under way. */
  renew(): void {
    if (!this.#round) this.#begin(undefined)
  }

  /** Tells a Redis that is back of all slots, also of those that are admitted meanwhile; then calls `told`. */
  restore(told: () => void): void {
    this.#begin(told)
  }

  #begin(sent: Round['sent']): void {
    const round: Round = { left: [...this.#held], at: 0, sent }
    this.#round = round
    for (let i = 0; i < together; i++) this.#goOn(round)
  }

  /** Sends the next portion, and another one when that is answered, until all are sent or Redis is gone. */
  #goOn(round: Round): void {
    if (round !== this.#round) return
    if (!this.#redis.hears) {
      this.#round = undefined
      return
    }
    const homes = this.#take(round)
    let open = homes.size
    for (const keys of homes.values())
      this.#redis.ask(
        {
          script: renew,
          keys: [...keys.keys()],
          args: [this.#lease, ...[...keys.values()].flatMap((names) => [String(names.length), ...names])]
        },
        { answered: () => --open === 0 && this.#goOn(round) }
      )
    if (round.at < round.left.length) return
    // Without Redis it goes on being admitted by this node alone.
    if (round.sent) [round.left, round.at] = [[...this.#held].filter(({ told }) => !told), 0]
    if (round.sent && round.left.length > 0) return open === 0 ? this.#goOn(round) : undefined
    this.#round = undefined
    round.sent?.()
  }

  /** Takes about a portion: the names of slots, by their homes and keys, as a home is in one place of a cluster. */
  #take(round: Round): ReadonlyMap<string, ReadonlyMap<string, string[]>> {
    const homes = new Map<string, Map<string, string[]>>()
    for (let size = 0; size < portion && round.at < round.left.length;) {
      const lease = round.left[round.at++]!
      // Its release is told by itself.
      if (lease.released) continue
      lease.told = true
      size += lease.slots.length
      for (const { home, key } of lease.slots) {
        let keys = homes.get(home)
        if (!keys) homes.set(home, (keys = new Map()))
        const names = keys.get(key)
        if (names) names.push(lease.id)
        else keys.set(key, [lease.id])
      }
    }
    return homes
  }
}
