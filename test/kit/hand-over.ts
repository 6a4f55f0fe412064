// Hands a store over from one process to the next, both of which are played by this one.
import { EventEmitter } from 'node:events'
import { deserialize, serialize } from 'node:v8'
import { Custody } from '../../core/handover/custody.ts'
import type { Deputies } from '../../core/handover/deputies.ts'
import { keptOf } from '../../core/handover/messages.ts'
import type { Going, Left, Opened } from '../../core/handover/opened.ts'
import { Line } from '../../core/store/distant/line.ts'
import type { Port } from '../../core/store/distant/line.ts'
import type { KeptHold } from '../../core/store/embedded/book/book.ts'
import type { OwnStore } from '../../core/store/embedded/store.ts'
import { MemoryCache } from '../../core/store/memory/cache.ts'
import { SealedVault } from '../../core/store/sealed/vault.ts'
import type { Services } from '../../core/store/services.ts'
import type { Works } from '../../core/store/works.ts'
import { silentLog } from '../../core/telling/log.ts'

const state = { key: 'secret', keep: 1e12, largest: 2 ** 20, of_tenant: 2 ** 28, size: 2 ** 30 }

/** A vault over the work of a store. */
export function vaultOf(works: Works): SealedVault {
  return new SealedVault(works, state)
}

/** The services of a store and of what belongs to it. */
export function servicesOf({
  store,
  limits,
  secrets,
  claims
}: Pick<Opened, 'store' | 'limits' | 'secrets' | 'claims'>): Services {
  const { documents, ledger, requests, answers, routes, works } = store
  const vault = vaultOf(works)
  return {
    documents,
    ledger,
    requests,
    answers,
    routes,
    works,
    vault,
    limits,
    secrets,
    claims,
    cache: new MemoryCache(2 ** 20)
  }
}

/** Two ends of a channel between processes. Messages are copied, as they are between processes. */
export function ports(): [Port, Port] {
  const ends = [new EventEmitter(), new EventEmitter()] as const
  const portTo = (other: EventEmitter, own: EventEmitter): Port => ({
    send(message, sent) {
      const copy = serialize(message)
      setImmediate(() => other.emit('message', deserialize(copy)))
      sent(null)
    },
    on: (event: string, take: (message: unknown) => void) => own.on(event, take)
  })
  return [portTo(ends[1], ends[0]), portTo(ends[0], ends[1])]
}

/** A process that took the place of another one, and what it does for that. */
export interface Successor {
  readonly after: Custody
  readonly deputies: Deputies
}

/**
 * Hands a store over, from the process that has it to the next one, which opens it; both are played by this one.
 */
export async function handOver(
  before: Custody,
  open: (kept: readonly KeptHold[]) => Promise<OwnStore>
): Promise<Successor> {
  const [here, there] = ports()
  const estate = await before.leave(new Line(here), { close() {} }, [])
  const after = new Custody(await open(keptOf(estate)), open)
  const line = new Line(there)
  const deputies = deputiesOf(after, estate)
  line.serve(deputies.served)
  after.store.documents.watch((changes) => line.tell('documents', changes))
  return { after, deputies }
}

/** Adopts what a process has left. Returns its deputies. */
export function deputiesOf(after: Custody, estate: Left): Deputies {
  const ignore = (): void => {}
  const background = { attendFor: ignore, takeUp: ignore } as unknown as Going['background']
  return after.deputies(estate.parts, after.adopt(estate), { services: servicesOf(after), background, log: silentLog })
}
