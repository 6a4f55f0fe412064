// The routes of this store: saved by the writer and read by the reader thread. A route is in memory only until it is in
// the database.
import { GatewayError } from '../../../errors.ts'
import { routeColumns } from '../rows/batch.ts'
import type { Reader } from '../reader/reader.ts'
import type { Route, Routes } from '../../routes.ts'
import type { Value } from '../files/sqlite.ts'
import type { Writer } from '../writer/writer.ts'
import type { Owner } from '../../owner.ts'

/** A change that is not in the database yet: a new route, or null for a removed one. */
interface Waiting {
  route: Route | null
  /** The number of the batch that has the change. */
  batch: number
}

/** The routes of one store. */
export class RouteBook implements Routes {
  readonly #writer: Writer
  readonly #reader: Reader
  /** How long a route is kept, in milliseconds. */
  readonly #age: number
  readonly #now: () => number
  /** The changes by name, oldest batch first. */
  readonly #waiting = new Map<string, Waiting>()

  /** `age`: how long a route is kept, in milliseconds. */
  constructor(writer: Writer, reader: Reader, age: number, now: () => number) {
    this.#writer = writer
    this.#reader = reader
    this.#age = age
    this.#now = now
  }

  async find({ tenant, project }: Owner, id: string): Promise<Route | undefined> {
    this.#forget()
    const waiting = this.#waiting.get(nameOf(tenant, project, id))
    if (waiting) return waiting.route ?? undefined
    try {
      const { row } = await this.#reader.ask({ kind: 'route', tenant, project, id, now: this.#now() })
      return row as Route | undefined
    } catch (cause) {
      throw new GatewayError('billing_unavailable', 'What is stored cannot be looked up at the moment. Try again.', {
        retryAfterMs: 1000,
        cause
      })
    }
  }

  put(routes: readonly Route[]): Promise<void> {
    const expires = this.#now() + this.#age
    return this.#write(
      routes.map((route) => ({
        name: nameOf(route.tenant, route.project, route.id),
        route,
        values: routeValues(route, expires)
      }))
    )
  }

  remove({ tenant, project }: Owner, id: string): Promise<void> {
    return this.#write([
      {
        name: nameOf(tenant, project, id),
        route: null,
        values: [tenant, project, id, null, null, null, null, null, null]
      }
    ])
  }

  /** Takes over routes of another thread, as rows of a batch that is on disk. */
  follow(rows: readonly Value[]): void {
    this.#forget()
    const batch = this.#writer.next - 1
    for (let at = 0; at < rows.length; at += routeColumns.length) {
      const route = routeOf(rows.slice(at, at + routeColumns.length))
      const name = nameOf(route.tenant, route.project, route.id)
      this.#waiting.delete(name)
      this.#waiting.set(name, { route, batch })
    }
  }

  #write(changes: readonly { name: string; route: Route | null; values: readonly Value[] }[]): Promise<void> {
    this.#forget()
    const { draft } = this.#writer
    const batch = this.#writer.next
    for (const { name, route, values } of changes) {
      if (values.length !== routeColumns.length)
        throw new Error(`a route has ${values.length} values and not ${routeColumns.length}`)
      draft.routes.push(...values)
      draft.count(name.length)
      this.#waiting.delete(name)
      this.#waiting.set(name, { route, batch })
    }
    this.#writer.wake()
    return draft.durable
  }

  /** Removes the changes that are in the database by now. */
  #forget(): void {
    const { applied } = this.#writer
    for (const [name, { batch }] of this.#waiting) {
      if (batch > applied) return
      this.#waiting.delete(name)
    }
  }
}

/** The name of a route. It is unique, because no part of an owner's name has a line break. */
export function nameOf(tenant: string, project: string, id: string): string {
  return `${tenant}\n${project}\n${id}`
}

/** The values of a route in the order of {@link routeColumns}. */
export function routeValues(route: Route, expires: number): Value[] {
  const { tenant, project, id, kind, channel, account, model, tokens = null } = route
  return [tenant, project, id, kind, channel, account, model, tokens, expires]
}

/** A route by its values. */
function routeOf(values: readonly Value[]): Route {
  const [tenant, project, id, kind, channel, account, model, tokens] = values
  return { tenant, project, id, kind, channel, account, model, tokens } as Route
}
