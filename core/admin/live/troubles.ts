// The troubles of a gateway, looked for at most so often that looking costs nothing to speak of.
import type { AdminParts, Answer, Call, Route } from '../api/contract.ts'
import { budgetTroubles, mostBudgets } from './budget-troubles.ts'
import { findTroubles } from './find-troubles.ts'
import { severities, showTrouble, troublesShape } from './trouble.ts'
import type { Trouble } from './trouble.ts'
import { thrownText } from '../../thrown.ts'

/** What is found is shown for at least so many milliseconds, and for so many times as long as it took to find. */
const restMs = 1000
const restTimes = 50

export const troublesRoute: Route = {
  method: 'GET',
  path: '/admin/v1/troubles',
  summary: 'Lists what is wrong now, and what to do about it',
  access: { needs: 'see', tenant: { in: 'query' } },
  query: ['tenant'],
  answers: { 200: troublesShape },
  handle: async ({ query }: Call, { troubles }: AdminParts): Promise<Answer> => ({
    json: { data: (await troubles.look(query.get('tenant') ?? null)).map(showTrouble), next: null }
  })
}

type Parts = Pick<AdminParts, 'store' | 'generations' | 'reloader' | 'backups' | 'credentials' | 'workers' | 'log'>

/** What is wrong now, for everybody who asks. */
export class Troubles {
  readonly #parts: Parts
  /** What the last search found. */
  #found: readonly Trouble[] | undefined
  #search: Promise<void> | undefined
  /** When the next search may begin, by performance.now(). */
  #again = -Infinity

  constructor(parts: Parts) {
    this.#parts = parts
  }

  /** The troubles of one tenant, or with null all: the worst first, and of these the newest. */
  async look(tenant: string | null): Promise<readonly Trouble[]> {
    await this.#fresh()
    return this.#of(tenant, this.#found ?? [])
  }

  /** The same as JSON, for live streams, as they were found last; undefined before the first search has ended. */
  shown(tenant: string | null): string | undefined {
    void this.#fresh()
    return this.#found && JSON.stringify({ data: this.#of(tenant, this.#found).map(showTrouble) })
  }

  #of(tenant: string | null, found: readonly Trouble[]): readonly Trouble[] {
    if (tenant !== null) return found.filter((trouble) => trouble.tenant === tenant)
    let budgets = 0
    return found.filter(({ kind }) => kind !== 'budget' || ++budgets <= mostBudgets)
  }

  /** Resolves when the search has ended that is under way, or due. Never rejects. */
  async #fresh(): Promise<void> {
    if (performance.now() >= this.#again) this.#search ??= this.#find().finally(() => (this.#search = undefined))
    await this.#search
  }

  async #find(): Promise<void> {
    const began = performance.now()
    const now = Date.now()
    try {
      this.#found = [...findTroubles(this.#parts, now), ...(await budgetTroubles(this.#parts, now))].sort(byWeight)
    } catch (error) {
      this.#parts.log.error('what is wrong could not be found out', { error: thrownText(error) })
    }
    const ended = performance.now()
    this.#again = ended + Math.max(restMs, restTimes * (ended - began))
  }
}

function byWeight(one: Trouble, other: Trouble): number {
  const weight = severities.indexOf(one.severity) - severities.indexOf(other.severity)
  return weight === 0 ? (other.since ?? 0) - (one.since ?? 0) : weight
}
