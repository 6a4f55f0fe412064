// The alerts of budgets: remembers which thresholds were told, and delivers them to the webhook, for a day if need be.
import { createHmac, randomUUIDv7 } from 'node:crypto'
import type { Scope } from '../catalogue/caller.ts'
import type { AlertSettings } from '../catalogue/settings.ts'
import { GatewayError } from '../errors.ts'
import { formatDollars } from '../money/money.ts'
import { changeOf, documentKind } from '../store/documents.ts'
import type { Documents } from '../store/documents.ts'
import type { BudgetReached, BudgetWatcher, Ledger } from '../store/ledger.ts'
import type { Logger } from '../telling/log.ts'
import type { Counter, PluginMetrics } from '../telling/metrics.ts'
import type { Transport, UpstreamCall } from '../transport/transport.ts'
import { thrownText } from '../thrown.ts'

/** The highest threshold that was told of a budget in one of its windows. */
interface Threshold {
  readonly window: string
  readonly threshold: number
}

/** What was told of a budget in its latest window, and in the one before, which is still charged for a while. */
interface Told extends Threshold {
  readonly before?: Threshold | undefined
}

/** An alert that was not delivered yet. Times are in Unix milliseconds. */
export interface Undelivered {
  readonly id: string
  readonly body: string
  readonly since: number
  readonly attempts: number
  readonly next: number
}

const toldDocuments = documentKind<Told>('alert-told')
/** The alerts that wait for their webhook. */
export const undeliveredDocuments = documentKind<Undelivered>('alert-undelivered')

/** Milliseconds from an attempt to the next: doubled each time, from the first to the longest. */
const firstPause = 5_000
const longestPause = 3_600_000
/** After so many milliseconds an alert is given up. */
const patience = 86_400_000
/** The most alerts that wait. What comes then is logged and counted, and not delivered. */
const mostWaiting = 10_000

/** What {@link Alerts} need. `settings` are those in use now. */
export interface AlertParts {
  readonly store: { readonly documents: Documents; readonly ledger: Pick<Ledger, 'watch'> }
  readonly transport: Transport
  readonly metrics: PluginMetrics
  readonly log: Logger
  settings(): AlertSettings | undefined
  /** A scope with the budgets in use now; undefined when there is none. */
  scope(id: string): Scope | undefined
  /** Unix milliseconds, for tests. */
  now?(): number
}

/** Starts the alerts of a gateway; the returned function stops them. */
export function startAlerts(parts: AlertParts): () => Promise<void> {
  const alerts = new Alerts(parts)
  alerts.start()
  return () => alerts.close()
}

/** The highest threshold that was told of a budget in a window; 0 for none. */
export function toldOf(documents: Pick<Documents, 'find'>, scope: string, per: string, window: string): number {
  const told = documents.find(toldDocuments, `${scope} ${per}`)
  return [told, told?.before].find((one) => one?.window === window)?.threshold ?? 0
}

/** The alerts of a gateway. Deliveries go one after another, beside all requests. */
class Alerts implements BudgetWatcher {
  readonly #parts: AlertParts
  readonly #now: () => number
  readonly #told: Counter
  readonly #attempts: Counter
  #timer: NodeJS.Timeout | undefined
  #call: UpstreamCall | undefined
  #delivering = false
  #closed = false
  /** Says that connections to the webhook may be closed, when it has changed. */
  #leave: { channel: AlertSettings['channel']; leave: () => void } | undefined

  constructor(parts: AlertParts) {
    this.#parts = parts
    this.#now = parts.now ?? Date.now
    this.#told = parts.metrics.counter({
      name: 'budget_alerts_total',
      help: 'Thresholds of budgets that were reached.',
      labels: ['kind', 'threshold']
    })
    this.#attempts = parts.metrics.counter({
      name: 'alert_deliveries_total',
      help: 'Attempts to deliver an alert.',
      labels: ['outcome']
    })
  }

  /** Begins to watch the budgets, and goes on with what was not delivered before the start. */
  start(): void {
    this.#parts.store.ledger.watch(this)
    this.#plan()
  }

  async close(): Promise<void> {
    this.#closed = true
    clearTimeout(this.#timer)
    this.#call?.abort()
    this.#leave?.leave()
  }

  told({ scope, per, window }: Pick<BudgetReached, 'scope' | 'per' | 'window'>): number {
    return toldOf(this.#parts.store.documents, scope, per, window)
  }

  scope(id: string): Scope | undefined {
    return this.#parts.scope(id)
  }

  reached(reached: BudgetReached): boolean {
    const { scope, level, per, window, threshold, limit, posted } = reached
    const { store, log } = this.#parts
    const { documents } = store
    const now = this.#now()
    const alert = {
      id: `evt_${randomUUIDv7()}`,
      type: 'budget.threshold_reached',
      time: new Date(now).toISOString(),
      scope,
      level,
      per,
      window,
      threshold,
      limit_usd: formatDollars(limit),
      limit_nano: String(limit),
      posted_usd: formatDollars(posted),
      posted_nano: String(posted)
    }
    const { id } = alert
    const name = `${scope} ${per}`
    const sent = this.#parts.settings() && documents.all(undeliveredDocuments).length < mostWaiting
    const undelivered = { id, body: JSON.stringify(alert), since: now, attempts: 0, next: now }
    try {
      documents.note([
        changeOf(toldDocuments, name, toldAfter(documents.find(toldDocuments, name), { window, threshold })),
        ...(sent ? [changeOf(undeliveredDocuments, id, undelivered)] : [])
      ])
    } catch {
      return false
    }
    log.warn('a budget has reached a threshold', { ...alert })
    this.#told.add({ kind: level, threshold: String(threshold) })
    this.#plan()
    return true
  }

  /** Waits for the next delivery that is due. */
  #plan(): void {
    if (this.#closed || this.#delivering) return
    clearTimeout(this.#timer)
    const next = this.#first()
    if (!next) return
    // It was to wait for one pause at most: more is left where the clock was set back.
    const left = Math.min(next.next - this.#now(), next.attempts === 0 ? 0 : pauseAfter(next.attempts - 1))
    this.#timer = setTimeout(() => void this.#deliver(next), Math.max(0, left)).unref()
  }

  #first(): Undelivered | undefined {
    let first: Undelivered | undefined
    for (const one of this.#parts.store.documents.all(undeliveredDocuments))
      if (!first || one.next < first.next) first = one
    return first
  }

  async #deliver(alert: Undelivered): Promise<void> {
    this.#delivering = true
    const failure = await this.#send(alert)
    if (this.#closed) return
    this.#attempts.add({ outcome: failure === undefined ? 'delivered' : 'failed' })
    const { id, since, attempts } = alert
    const next = this.#now() + pauseAfter(attempts)
    const over = failure === undefined || next > since + patience
    const { log } = this.#parts
    if (failure !== undefined && over) log.error('an alert was given up', { id, attempts: attempts + 1, failure })
    else if (failure !== undefined && attempts === 0)
      log.warn('an alert could not be delivered, and is sent again', { id, failure })
    const left = over ? null : { ...alert, attempts: attempts + 1, next }
    try {
      await this.#parts.store.documents.change([changeOf(undeliveredDocuments, id, left)])
    } catch {
      // While the disk fails nothing is remembered, and the alert is sent once more later: its id tells.
      await new Promise((resolve) => (this.#timer = setTimeout(resolve, firstPause).unref()))
    }
    this.#delivering = false
    this.#plan()
  }

  /** Sends an alert; resolves with what went wrong, undefined when it was taken. Never rejects. */
  async #send({ id, body }: Undelivered): Promise<string | undefined> {
    const settings = this.#parts.settings()
    if (!settings) return 'no "alerts" in the configuration says where to'
    const { channel, path, secrets } = settings
    try {
      await this.#use(channel)
      return await new Promise<string | undefined>((resolve) => {
        const timer = setTimeout(() => {
          this.#call?.abort()
          resolve('no answer in time')
        }, channel.timeouts.total).unref()
        const done = (failure: string | undefined): void => {
          clearTimeout(timer)
          resolve(failure)
        }
        const headers = ['content-type', 'application/json', 'sluice-event-id', id]
        headers.push('sluice-signature', signatureOf(body, secrets, Math.floor(this.#now() / 1000)))
        const request = { method: 'POST', path, headers, body: [Buffer.from(body)] } as const
        this.#call = this.#parts.transport.send(channel, request, {
          onHead: (status) => {
            done(status >= 200 && status < 300 ? undefined : `the webhook answered ${status}`)
          },
          onData: () => {},
          onEnd: () => {},
          onError: (error) => done(error.message)
        })
      })
    } catch (error) {
      return error instanceof GatewayError ? error.message : thrownText(error)
    } finally {
      this.#call = undefined
    }
  }

  async #use(channel: AlertSettings['channel']): Promise<void> {
    if (this.#leave?.channel === channel) return
    this.#leave?.leave()
    this.#leave = { channel, leave: await this.#parts.transport.use([channel]) }
  }
}

/** Milliseconds from a failed attempt to the next, after so many attempts before it. */
function pauseAfter(attempts: number): number {
  return Math.min(firstPause * 2 ** attempts, longestPause)
}

/** What was told of a budget when a threshold was told in one of its windows. Older windows are forgotten. */
function toldAfter(told: Told | undefined, now: Threshold): Told {
  if (!told) return now
  const { before, ...latest } = told
  if (latest.window === now.window) return { ...told, ...now }
  return before?.window === now.window ? { ...latest, before: now } : { ...now, before: latest }
}

/**
 * The signature of a body at a time in Unix seconds: `t=<time>,v1=<hex>` with an HMAC-SHA256 of `<time>.<body>` for
 * each secret. Whoever receives it computes one and compares it with each `v1`.
 */
function signatureOf(body: string, secrets: readonly string[], time: number): string {
  const signatures = secrets.map(
    (secret) => `v1=${createHmac('sha256', secret).update(`${time}.${body}`).digest('hex')}`
  )
  return [`t=${time}`, ...signatures].join(',')
}
