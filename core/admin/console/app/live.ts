// What happens at the gateway now, for pages: one stream for all tabs of a browser where it has shared workers, and
// none while the page is not seen.
import { signal } from '@preact/signals'
import { useEffect } from 'preact/hooks'
import { pathWith } from './api.ts'
import { LiveSource } from './live-source.ts'
import type { LiveMessage } from './live-source.ts'
import type { LiveWish } from './live-worker.ts'
import { workerAddress } from './trusted.ts'

/** The sums of one second. */
export interface Tick {
  readonly at: string
  /** Of how many milliseconds they are. */
  readonly ms: number
  readonly requests: number
  readonly errors: number
  readonly codes: Readonly<Record<string, number>>
  readonly input_tokens: number
  readonly output_tokens: number
  readonly cost_nano: string
  readonly first_event_p50_ms: number | null
  readonly first_event_p95_ms: number | null
}

/** What is wrong now, as `GET /admin/v1/troubles` lists it. */
export interface Trouble {
  readonly id: string
  readonly kind: string
  readonly severity: 'critical' | 'warning' | 'notice'
  readonly since: string | null
  readonly text: string
  readonly remedy: string
  readonly link: string
}

/** The newest ticks, oldest first. */
export const ticks = signal<readonly Tick[]>([])
/** What is wrong now; undefined until the stream has said. */
export const troubles = signal<readonly Trouble[] | undefined>(undefined)
/** Whether the stream is connected; undefined before the first attempt has ended. */
export const connection = signal<{ readonly connected: boolean; readonly since: number } | undefined>(undefined)
/** Grows when something may have been missed: what was loaded is to be loaded anew. */
export const resets = signal(0)
/** Whether the reader has stopped what moves. */
export const paused = signal(false)

/** Requests that ended within a second, as the stream shows them; `skipped` of them it does not. */
export interface Arrivals {
  readonly rows: readonly ArrivedRow[]
  readonly skipped: number
}

/** What the stream shows of a request: a part of a row of the list. */
export interface ArrivedRow {
  readonly tenant: string | null
  readonly project: string | null
  readonly member: string | null
  readonly key: string | null
  readonly model: string | null
  readonly endpoint: string
  readonly status: number
  readonly error_code: string | null
  readonly outcome: string
}

const hearers = new Set<(arrivals: Arrivals) => void>()

/** Calls `hear` with requests as they end, where the topic is followed; the returned function ends that. */
export function onArrivals(hear: (arrivals: Arrivals) => void): () => void {
  hearers.add(hear)
  return () => void hearers.delete(hear)
}

/** How many ticks are kept. */
const ticksKept = 300
/** Milliseconds between two signs of life to the worker. */
const signEvery = 15_000

/**
 * Follows the stream of a tenant, or of all, while the component is there and the page is seen. `on`: whether it does
 * so now.
 */
export function useLive(
  tenant: string | undefined,
  { topics = 'overview,troubles', on = true }: { topics?: string; on?: boolean } = {}
): void {
  const stopped = paused.value || !on
  useEffect(() => {
    ticks.value = []
    troubles.value = undefined
  }, [tenant])
  useEffect(() => {
    if (stopped) return undefined
    let leave: (() => void) | undefined
    const turn = (): void => {
      if (document.visibilityState === 'hidden') {
        leave?.()
        leave = undefined
      } else leave ??= join(pathWith('/admin/v1/live', { topics, tenant }))
    }
    const go = (): void => {
      leave?.()
      leave = undefined
    }
    turn()
    document.addEventListener('visibilitychange', turn)
    addEventListener('pagehide', go)
    addEventListener('pageshow', turn)
    return () => {
      document.removeEventListener('visibilitychange', turn)
      removeEventListener('pagehide', go)
      removeEventListener('pageshow', turn)
      go()
    }
  }, [tenant, topics, stopped])
}

/** Joins a stream; the returned function leaves it. */
function join(path: string): () => void {
  // Ticks that were there before come once more from whoever kept them.
  ticks.value = []
  const url = new URL(path, location.href).href
  if (typeof SharedWorker === 'undefined') {
    const source = new LiveSource(url, take)
    return () => source.close()
  }
  const { port } = new SharedWorker(workerAddress('/console/app/live-worker.ts'), { type: 'module', name: 'sluice' })
  const say = (wish: LiveWish['wish']): void => port.postMessage({ url, wish } satisfies LiveWish)
  port.onmessage = ({ data }: MessageEvent<LiveMessage>) => take(data)
  say('watch')
  const timer = setInterval(() => say('stay'), signEvery)
  return () => {
    clearInterval(timer)
    say('leave')
    port.close()
  }
}

function take(message: LiveMessage): void {
  if (message.kind === 'state') {
    connection.value = message
    return
  }
  const { name, data } = message
  if (name === 'tick') ticks.value = [...ticks.peek(), data as Tick].slice(-ticksKept)
  else if (name === 'troubles') troubles.value = (data as { data: Trouble[] }).data
  else if (name === 'requests') for (const hear of hearers) hear(data as Arrivals)
  else if (name === 'reset' || name === 'missed') resets.value++
}
