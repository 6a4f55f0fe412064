// What an exchange under way is doing, for whoever looks for one that hangs. It is found out when somebody asks, from
// what the exchange has anyway.
import { caller } from '../contract/slots.ts'
import type { LiveExchange } from './state/exchange.ts'

/**
 * Where an exchange is. `reading`: its body comes, or is checked. `deciding`: plugins are at work, or it waits for room
 * or for another attempt. `waiting`: an upstream was asked, and nothing was shown. `answering`: the client gets the
 * answer. `session`: a WebSocket is open. `settling`: the answer has ended, and what is due is written.
 */
export const progressStates = ['reading', 'deciding', 'waiting', 'answering', 'session', 'settling'] as const

/** An exchange under way. Durations are in milliseconds. */
export interface Progress {
  readonly id: string
  /** Unix milliseconds. */
  readonly receivedAt: number
  /** Null before it is known whose it is. */
  readonly tenant: string | null
  readonly project: string | null
  readonly member: string | null
  readonly key: string | null
  /** Empty before it is known. */
  readonly model: string
  readonly endpoint: string
  readonly protocol: string
  readonly streaming: boolean
  readonly state: (typeof progressStates)[number]
  readonly ageMs: number
  /** The one that is asked, or was last. */
  readonly channel: string | undefined
  readonly attempts: number
  /** Since the latest attempt began. */
  readonly attemptMs: number | undefined
  /** Since the upstream of an answer was last heard. */
  readonly silentMs: number | undefined
  /** Of the answer, as far as they were sent to the client. */
  readonly bytes: number
  readonly events: number
  readonly clientLeft: boolean
  /** Whether it goes on although its client was answered. */
  readonly background: boolean
}

/** What an exchange is doing. `now`: `performance.now()`. */
export function progressOf(exchange: LiveExchange, now: number): Progress {
  const { request, attempts, relay, session } = exchange
  const who = exchange.find(caller)
  const last = attempts.at(-1)
  return {
    id: exchange.id,
    receivedAt: exchange.receivedAt,
    tenant: who?.tenant ?? null,
    project: who?.project ?? null,
    member: who?.member ?? null,
    key: who?.key ?? null,
    model: last?.model || exchange.model,
    endpoint: request.operation.name,
    protocol: request.operation.protocol,
    streaming: exchange.streaming,
    state: stateOf(exchange),
    ageMs: now - exchange.startedAt,
    channel: last?.channel.name,
    attempts: attempts.length,
    attemptMs: last && now - last.startedAt,
    silentMs: relay && !relay.over ? relay.silentMs : undefined,
    bytes: session?.bytes ?? relay?.outlet.bytes ?? 0,
    events: relay?.outlet.events ?? 0,
    clientLeft: exchange.gone,
    background: exchange.standIn !== undefined
  }
}

function stateOf({ session, relay, times, attempts }: LiveExchange): Progress['state'] {
  if (session) return 'session'
  if (relay && !relay.over) return relay.outlet.committed ? 'answering' : 'waiting'
  // One that failed before anything was shown may be followed by another.
  if (relay && !(relay.attempt.error && !relay.outlet.committed)) return 'settling'
  return attempts.length === 0 && times.bodyAt === undefined ? 'reading' : 'deciding'
}
