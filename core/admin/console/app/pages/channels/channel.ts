// A channel as the admin API shows it, and what its state means.
import type { Tone } from '../../parts/status.ts'

/** What is left of one limit. */
export interface LimitLeft {
  readonly name: string
  readonly by: 'file' | 'upstream'
  readonly models: string | null
  readonly limit: number | null
  readonly left: number
  readonly resets: string | null
}

/** One of several credentials of a channel. */
export interface Credential {
  readonly name: string
  readonly weight: number
  readonly state: 'healthy' | 'cooling' | 'ejected' | 'probing'
  readonly until: string | null
  readonly reason: string | null
  readonly successes: number
  readonly failures: number
  readonly limits: readonly LimitLeft[]
}

/** What `GET /admin/v1/channels` lists. */
export interface Channel {
  readonly name: string
  readonly protocol: string
  readonly base_url: string
  readonly private: boolean
  readonly credential_expires: string | null
  readonly endpoints: readonly string[]
  readonly models: Readonly<Record<string, string>>
  readonly priority: number
  readonly weight: number
  readonly state: 'draining' | 'off' | 'healthy' | 'cooling' | 'ejected' | 'probing'
  readonly switched: {
    readonly file: 'on' | 'draining' | 'off'
    readonly operator: 'on' | 'draining' | 'off'
    readonly since: string | null
    readonly by: string | null
  }
  readonly health: {
    readonly since: string | null
    readonly until: string | null
    readonly reason: string | null
    readonly consecutive_failures: number
    readonly successes: number
    readonly failures: number
    readonly recent: number
    readonly error_rate: number | null
    readonly first_event_ms: { readonly p50: number; readonly p95: number } | null
    readonly tokens_per_second: number | null
    readonly limits: readonly LimitLeft[]
    readonly credentials: readonly Credential[]
  } | null
}

/** What a test of a channel found. */
export interface TestResult {
  readonly endpoint: string
  readonly model: string
  readonly ok: boolean
  readonly status: number | null
  readonly error: { readonly code: string; readonly said: string } | null
  readonly first_byte_ms: number | null
  readonly duration_ms: number
  readonly cost_nano: string | null
}

/** How good each state is. */
export const tones: Readonly<Record<Channel['state'], Tone>> = {
  healthy: 'good',
  cooling: 'warn',
  probing: 'warn',
  ejected: 'bad',
  draining: 'idle',
  off: 'idle'
}

/** The address of a channel in the API. */
export function pathOf(name: string): string {
  return `/admin/v1/channels/${encodeURIComponent(name)}`
}

/** Why a channel is in its state, in a sentence; undefined for one that is well. */
export function whyOf({ state, switched, health }: Channel): string | undefined {
  if (state === 'off' || state === 'draining') {
    const what = state === 'off' ? 'Nothing is sent there' : 'Nothing new is sent there, and what runs ends'
    return switched.by === null ? `${what}: gateway.yaml says so.` : `${what}: ${switched.by} switched it.`
  }
  return health?.reason ? `${health.reason.charAt(0).toUpperCase()}${health.reason.slice(1)}.` : undefined
}
