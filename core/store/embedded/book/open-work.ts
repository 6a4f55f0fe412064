// Open work in memory: found by its owner and by its name at the upstream, counted by tenant, shown as it is on disk.
import type { Owner } from '../../owner.ts'
import { isOpen } from '../../works.ts'
import type { Work } from '../../works.ts'

/** The open work of a process or a thread. */
export class OpenWork {
  readonly #all = new Map<string, Work>()
  /** That of upstreams, by account and upstream id. */
  readonly #places = new Map<string, Work>()
  /** How much each tenant has. */
  readonly #counts = new Map<string, number>()
  /** For work that is being saved: its state on disk, which is shown until then, and its new state. */
  readonly #shown = new Map<string, Work>()
  readonly #going = new Map<string, Work>()

  /** Oldest first. */
  get all(): readonly Work[] {
    return [...this.#all.values()]
  }

  get size(): number {
    return this.#all.size
  }

  of(tenant: string): number {
    return this.#counts.get(tenant) ?? 0
  }

  /** The latest state. */
  get(owner: Owner, id: string): Work | undefined {
    return this.#all.get(nameOf(owner, id))
  }

  at(account: string, upstreamId: string): Work | undefined {
    return this.#places.get(placeOf(account, upstreamId))
  }

  /** The state that its owner is shown. Work that has just ended is among these while that is being saved. */
  shown(owner: Owner, id: string): Work | undefined {
    const name = nameOf(owner, id)
    return this.#shown.get(name) ?? this.#all.get(name)
  }

  /** A new state is being saved: until the returned function is called, the one before is shown. */
  saving(work: Work): () => void {
    const name = nameOf(work, work.id)
    const before = this.#all.get(name)
    if (before && !this.#shown.has(name)) this.#shown.set(name, before)
    this.#going.set(name, work)
    return () => {
      if (this.#going.get(name) === work) for (const list of [this.#shown, this.#going]) list.delete(name)
    }
  }

  /** Takes over a state, in the place of the one before, which it returns. Work that has ended is not among it. */
  put(work: Work): Work | undefined {
    const name = nameOf(work, work.id)
    const before = this.#all.get(name)
    if (before && before.upstreamId !== null) this.#places.delete(placeOf(before.account, before.upstreamId))
    if (isOpen(work)) {
      if (!before) this.#counts.set(work.tenant, this.of(work.tenant) + 1)
      this.#all.set(name, work)
      if (work.upstreamId !== null) this.#places.set(placeOf(work.account, work.upstreamId), work)
    } else if (before) this.#end(name, work)
    return before
  }

  /** Removes it, as if it had never been there. */
  remove(work: Work): void {
    const name = nameOf(work, work.id)
    const before = this.#all.get(name)
    if (before && before.upstreamId !== null) this.#places.delete(placeOf(before.account, before.upstreamId))
    if (before) this.#end(name, before)
    for (const list of [this.#shown, this.#going]) list.delete(name)
  }

  #end(name: string, { tenant }: Work): void {
    this.#all.delete(name)
    const left = this.of(tenant) - 1
    if (left > 0) this.#counts.set(tenant, left)
    else this.#counts.delete(tenant)
  }
}

/** The name of work at an upstream. It is unique, because a fingerprint has no line break. */
function placeOf(account: string, upstreamId: string): string {
  return `${account}\n${upstreamId}`
}

/**
 * The name of work and of its result among all owners. It is unique, because no part of an owner's name has a line
 * break.
 */
export function nameOf({ tenant, project }: Owner, id: string): string {
  return `${tenant}\n${project}\n${id}`
}
