// The troubles of a gateway, looked for at most so often that looking costs nothing to speak of.
import type { AdminParts, Answer, Call, Route } from '../api/contract.ts'
import { budgetTroubles } from './budget-troubles.ts'
import { findTroubles } from './find-troubles.ts'
import { severities, showTrouble, troublesShape } from './trouble.ts'
import type { Trouble } from './trouble.ts'

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
  handle: ({ query }: Call, { troubles }: AdminParts): Answer => ({
    json: { data: troubles.now(query.get('tenant') ?? null).map(showTrouble), next: null }
  })
}

/** What is wrong now, for everybody who asks. */
export class Troubles {
  readonly #find: () => Trouble[]
  #found: readonly Trouble[] = []
  #again = -Infinity

  constructor(parts: Pick<AdminParts, 'store' | 'generations' | 'reloader' | 'backups' | 'credentials'>) {
    this.#find = () => {
      const now = Date.now()
      return [...findTroubles(parts, now), ...budgetTroubles(parts, now)].sort(byWeight)
    }
  }

  /** The troubles of one tenant, or with null all: the worst first, and of these the newest. */
  now(tenant: string | null): readonly Trouble[] {
    const began = performance.now()
    if (began >= this.#again) {
      this.#found = this.#find()
      const ended = performance.now()
      this.#again = ended + Math.max(restMs, restTimes * (ended - began))
    }
    return tenant === null ? this.#found : this.#found.filter((trouble) => trouble.tenant === tenant)
  }

  /** The same as JSON, for live streams. */
  shown(tenant: string | null): string {
    return JSON.stringify({ data: this.now(tenant).map(showTrouble) })
  }
}

function byWeight(one: Trouble, other: Trouble): number {
  const weight = severities.indexOf(one.severity) - severities.indexOf(other.severity)
  return weight === 0 ? (other.since ?? 0) - (one.since ?? 0) : weight
}
