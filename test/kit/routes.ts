// Routes without a disk, for tests of what operations store.
import type { Route, Routes } from '../../core/store/routes.ts'
import type { Owner } from '../../core/store/owner.ts'

/** Keeps all routes that were not removed. */
export class TestRoutes implements Routes {
  readonly all = new Map<string, Route>()
  /** The promise that routes wait for to be durable. */
  disk: Promise<void> = Promise.resolve()

  find({ tenant, project }: Owner, id: string): Promise<Route | undefined> {
    return Promise.resolve(this.all.get(`${tenant}/${project}/${id}`))
  }

  put(routes: readonly Route[]): Promise<void> {
    for (const route of routes) this.all.set(`${route.tenant}/${route.project}/${route.id}`, route)
    return this.disk
  }

  remove({ tenant, project }: Owner, id: string): Promise<void> {
    this.all.delete(`${tenant}/${project}/${id}`)
    return this.disk
  }
}
