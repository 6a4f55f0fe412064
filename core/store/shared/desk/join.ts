// Joins the store that workers share, in the thread of a worker: its desk, and a line to the supervisor for the rest.
import { steadyNow } from '../../../watchdog/steady-time.ts'
import { Line } from '../../distant/line.ts'
import {
  answersThere,
  claimsThere,
  documentsThere,
  requestsThere,
  routesThere,
  secretsThere,
  sumsThere,
  workThere
} from '../../distant/services.ts'
import { threadPort } from '../../distant/thread-port.ts'
import { DocumentTable } from '../../document-table.ts'
import type { DocumentChange } from '../../documents.ts'
import { SecretBook } from '../../embedded/book/secret-book.ts'
import { nameOf } from '../../embedded/book/open-work.ts'
import { Results } from '../../embedded/files/results.ts'
import { newHealth } from '../../embedded/writer/store-health.ts'
import type { Errand, Told, Work } from '../../works.ts'
import { Desk } from './desk.ts'
import { storeAt } from './seat-store.ts'
import type { Seated } from './seat-store.ts'
import type { Tally } from './seat-works.ts'
import type { Place } from '../worker-store.ts'

/** How often a worker says that it is alive, in milliseconds. */
const beat = 250

/**
 * Joins. Resolves when the worker has all documents, and follows them. `now`: Unix milliseconds, for tests; by default
 * the clock of the machine, and the steady time for everything that expires.
 */
export async function joinStore(place: Place, now?: () => number): Promise<Seated> {
  const line = new Line(threadPort(place.port))
  const desk = new Desk(place, now ?? Date.now, { reader: { ask: (question) => line.ask('readBalances', question) } })
  const table = new DocumentTable()
  const documents = documentsThere(line, table)
  const results = new Results(place.path, place.synced)
  // Until it has joined, nothing else may keep the thread running.
  const beating = setInterval(() => desk.seat.beat(), beat)
  const lasting = now ?? steadyNow
  const { works, ...seated } = storeAt(
    desk,
    {
      documents,
      requests: { ...requestsThere(line), append: (...record) => desk.requests.append(...record) },
      answers: answersThere(line),
      routes: routesThere(line),
      works: {
        ...workThere(line),
        errand: (...asked) => line.ask<Work | undefined>('errand', ...asked).catch(() => undefined),
        told: (...asked) => line.ask<Told | undefined>('told', ...asked).catch(() => undefined),
        flushed: () => line.ask('flushedWork'),
        // Results go with the work that expires, and the supervisor sees to that.
        expired: async () => [],
        sweep: async () => 0,
        keepResult: (work, bytes) => results.put(nameOf(work, work.id), bytes),
        result: (work) => results.read(nameOf(work, work.id))
      },
      secrets: secretsThere(line, new SecretBook(documents, lasting)),
      claims: claimsThere(line),
      ...sumsThere(line),
      flush: () => line.ask('flush'),
      health: () => ({
        ...newHealth(),
        healthy: !desk.drafts.full,
        queued: desk.drafts.draft.ops,
        queuedBytes: desk.drafts.draft.bytes,
        droppedRecords: desk.dropped
      }),
      async close() {
        clearInterval(beating)
        line.hangUp()
      }
    },
    { routeAge: place.routeAge, lasting }
  )
  // The supervisor remembers what was told of each budget, whichever worker saw it.
  desk.ledger.watch({
    told: () => 0,
    scope: () => undefined,
    reached(reached) {
      line.tell('reached', reached)
      return true
    }
  })
  line.serve({
    documents: (changes: readonly DocumentChange[]) => table.follow(changes),
    tally: (tally: Tally) => works.hear(tally),
    errand: (work: Work, what: Errand, said: unknown) => works.serve(work, what, said),
    told: (work: Work, from: number) => works.tell(work, from)
  })
  void line.closed.then(() => line.fail())
  await line.ask('join')
  beating.unref()
  return {
    ...seated,
    follow: (_takeUp, attendant) => works.follow(attendant)
  }
}
