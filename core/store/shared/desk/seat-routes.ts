// The routes as one thread has them: it writes them with its other records, and looks up what is not its own where the
// store is.
import { nameOf, routeValues } from '../../embedded/book/route-book.ts'
import type { Owner } from '../../owner.ts'
import type { Route, Routes } from '../../routes.ts'
import type { RecordWriter } from '../records/record-writer.ts'

/** The routes of one seat. */
export class SeatRoutes implements Routes {
  readonly #drafts: RecordWriter
  readonly #stored: Pick<Routes, 'find' | 'remove'>
  readonly #age: number
  readonly #now: () => number
  /** Those that are not on disk: nobody else knows them. */
  readonly #waiting = new Map<string, Route>()

  /** `age`: how long a route is kept, in milliseconds. */
  constructor(drafts: RecordWriter, stored: Pick<Routes, 'find' | 'remove'>, age: number, now: () => number) {
    this.#drafts = drafts
    this.#stored = stored
    this.#age = age
    this.#now = now
  }

  async find(owner: Owner, id: string): Promise<Route | undefined> {
    return this.#waiting.get(nameOf(owner.tenant, owner.project, id)) ?? this.#stored.find(owner, id)
  }

  put(routes: readonly Route[]): Promise<void> {
    const { draft } = this.#drafts
    const expires = this.#now() + this.#age
    for (const route of routes) {
      const name = nameOf(route.tenant, route.project, route.id)
      draft.routes.push(...routeValues(route, expires))
      draft.count(name.length)
      this.#waiting.set(name, route)
      void draft.kept().then(() => this.#waiting.get(name) === route && this.#waiting.delete(name))
    }
    this.#drafts.wake()
    return draft.durable
  }

  async remove(owner: Owner, id: string): Promise<void> {
    // Behind the record of this thread that has it.
    const name = nameOf(owner.tenant, owner.project, id)
    if (this.#waiting.delete(name)) await this.#drafts.kept()
    await this.#stored.remove(owner, id)
  }
}
