// The health of channels as all threads see it. Each thread judges by the answers that it has had itself.
import type { ChannelHealth, CredentialHealth } from '../contract/health.ts'

/** The health of channels by name. */
export type Health = Readonly<Record<string, ChannelHealth>>

const severities = { healthy: 0, probing: 1, cooling: 2, ejected: 3 } as const

/**
 * Puts together what threads say. A channel is as the thread says that thinks worst of it; attempts are added up; and
 * how quick it is, says the thread that has asked it most.
 */
export function joinedHealth(all: readonly Health[]): Health {
  const found = new Map<string, ChannelHealth[]>()
  for (const health of all)
    for (const [name, one] of Object.entries(health)) {
      const others = found.get(name)
      if (others) others.push(one)
      else found.set(name, [one])
    }
  return Object.fromEntries(
    Array.from(found, ([name, views]) => [name, views.length === 1 ? views[0]! : joined(views)])
  )
}

function joined(views: readonly ChannelHealth[]): ChannelHealth {
  const worst = worstOf(views)
  const busiest = views.toSorted((one, other) => other.recent - one.recent)[0]!
  const recent = sum(views, (view) => view.recent)
  const failed = sum(views, (view) => (view.error_rate ?? 0) * view.recent)
  const { credentials } = worst
  return {
    ...worst,
    consecutive_failures: Math.max(...views.map((view) => view.consecutive_failures)),
    successes: sum(views, (view) => view.successes),
    failures: sum(views, (view) => view.failures),
    recent,
    error_rate: recent === 0 ? null : failed / recent,
    first_event_ms: busiest.first_event_ms,
    tokens_per_second: busiest.tokens_per_second,
    ...(credentials && { credentials: credentials.map(({ name }) => joinedCredential(name, views)) })
  }
}

function joinedCredential(name: string, views: readonly ChannelHealth[]): CredentialHealth {
  const own = views.flatMap(({ credentials = [] }) => credentials.filter((one) => one.name === name))
  return {
    ...worstOf(own),
    successes: sum(own, ({ successes }) => successes),
    failures: sum(own, ({ failures }) => failures)
  }
}

function worstOf<T extends Pick<ChannelHealth, 'state' | 'until'>>(views: readonly T[]): T {
  return views.toSorted(
    (one, other) => severities[other.state] - severities[one.state] || (other.until ?? 0) - (one.until ?? 0)
  )[0]!
}

function sum<T>(all: readonly T[], of: (one: T) => number): number {
  return all.reduce((total, one) => total + of(one), 0)
}
