// Ends work: settles or gives back its hold, writes its record and shows its result, all of it once and in one batch.
import type { Progress } from '../../contract/background.ts'
import { formatDollars } from '../../money/money.ts'
import { chargeFor, doubted } from '../../money/settlement.ts'
import type { Consumed } from '../../money/settlement.ts'
import { noUsage } from '../../money/usage.ts'
import type { Usage } from '../../money/usage.ts'
import type { AttemptCost, Reservation, Settlement } from '../../store/ledger.ts'
import type { RequestRecord } from '../../store/requests.ts'
import type { Services } from '../../store/services.ts'
import { isOpen } from '../../store/works.ts'
import type { Work } from '../../store/works.ts'
import type { Logger } from '../../telling/log.ts'
import type { GenerationSource } from '../state/generation.ts'
import { steadyNow } from '../../watchdog/steady-time.ts'
import { thrownText } from '../../thrown.ts'

/** The error codes in the records of work that did not succeed. */
const codes = { failed: 'task_failed', cancelled: 'task_cancelled', expired: 'task_expired' } as const

/** The ends of all work of a process. */
export class Conclusions {
  readonly #services: Services
  readonly #generations: GenerationSource
  readonly #log: Logger
  /** Work whose exchange is still under way, by the id of the request. */
  readonly #attended = new Map<string, Work>()

  constructor(services: Services, generations: GenerationSource, log: Logger) {
    this.#services = services
    this.#generations = generations
    this.#log = log
  }

  /**
   * From now on only the exchange that has begun the work ends it. Work that the exchange began in an earlier attempt,
   * which failed, ends now.
   */
  attend(work: Work): void {
    const { requestId } = work
    const before = this.#attended.get(requestId)
    this.#attended.set(requestId, work)
    if (before && before.id !== work.id) void this.end(before, { status: 'failed' }, false).catch(() => {})
  }

  /** From now on only another process ends the work, or whoever is told that it has left it. */
  attendFor(work: Work): void {
    this.#attended.set(work.requestId, work)
  }

  /** The exchange no longer follows the work. Returns false when it has begun other work since. */
  leave(work: Work): boolean {
    return this.#attended.get(work.requestId)?.id === work.id && this.#attended.delete(work.requestId)
  }

  /**
   * Ends work, unless it has ended: of many who see the end one ends it. Resolves when that is on disk. `end` is no
   * state that goes on. `holds`: whether its hold and its record end with it, which those of an exchange that is being
   * settled do by themselves. While that is under way the end is noted for it. `holdEnds`: what is waited for where
   * they do, where a store does not write both at once ({@link holdEnd}).
   */
  end(work: Work, end: Progress, holds = true, holdEnds?: Promise<void>): Promise<void> {
    const { ledger, works, requests } = this.#services
    const { keep } = this.#generations.current.config.settings.tasks
    const now = Date.now()
    const latest = works.current(work, work.id)
    if (!latest || isOpen(end)) return Promise.resolve()
    if (holds && this.#attended.has(latest.requestId)) return this.#note(latest, end)
    const hold = holds ? ledger.detached(latest.requestId) : undefined
    const consumed = consumedOf(end, latest, hold)
    const settlement =
      hold && (end.status === 'succeeded' || consumed)
        ? this.#settlementOf(latest, consumed ?? { usage: noUsage, source: 'upstream' }, hold)
        : undefined
    const costs = latest.costs?.map((cost) => ({ ...cost, amount: BigInt(cost.amount) }))
    const settled =
      hold &&
      (settlement
        ? hold.settle({ ...settlement, ...(costs && { costs }) })
        : hold.void(costs ?? this.#lostWith(latest, hold)))
    const usage = settlement?.usage ?? end.usage ?? null
    const { record } = latest
    // A hold without open work is ended by estimate: a gateway that is killed before this is written leaves work whose
    // hold has ended, which is harmless.
    const ended = works.put(
      {
        ...latest,
        status: end.status,
        progress: end.status === 'succeeded' ? 100 : latest.progress,
        updated: now,
        ended: now,
        expires: Math.min(steadyNow() + (latest.keep ?? keep), end.expires ?? Infinity),
        error: end.status === 'failed' ? (end.error ?? { code: 'task_failed', message: 'The task failed.' }) : null,
        usage: settlement || end.status === 'succeeded' ? usage : null,
        details: { ...latest.details, ...end.details },
        record: null,
        costs: null
      },
      settled ?? holdEnds
    )
    if (record && holds) {
      const final = finalOf(
        latest.channel === null ? standIn(record, hold) : record,
        end,
        now - latest.created,
        hold,
        settlement
      )
      requests.append(final)
      this.#tellPlugins(final)
    }
    return Promise.all([settled, ended]).then(() => {})
  }

  /**
   * Keeps the end with the work for the exchange that must end it, which may not see the end itself. An end with a
   * usage replaces one without.
   */
  #note(latest: Work, end: Progress): Promise<void> {
    if (latest.seen && (latest.seen.usage || !end.usage)) return Promise.resolve()
    const { status, usage, source, error } = end
    return this.#services.works.put({ ...latest, seen: { status, usage, source, error } })
  }

  #settlementOf(
    { channel, record, requestId, prompt }: Work,
    consumed: Consumed<Settlement['source']>,
    hold: Reservation
  ): Settlement {
    const doubt = (usage: Readonly<Usage>): void => this.#log.error(doubted, { exchange: requestId, usage })
    return {
      ...chargeFor(consumed, hold, () => prompt?.usage ?? noUsage, doubt),
      channel: channel ?? record?.channel ?? hold.sent?.channel ?? ''
    }
  }

  /** What the gateway's own work may have cost whose process is gone, and nobody was shown anything of it. */
  #lostWith({ channel, requestId }: Work, hold: Reservation): AttemptCost[] | undefined {
    const { sent } = hold
    if (channel !== null || !sent) return undefined
    const doubt = (usage: Readonly<Usage>): void => this.#log.error(doubted, { exchange: requestId, usage })
    const lost = chargeFor({ usage: sent.usage, source: 'recovered' as const }, hold, () => noUsage, doubt)
    return [{ attempt: 0, channel: sent.channel, ...lost }]
  }

  #tellPlugins(record: RequestRecord): void {
    const generation = this.#generations.enter()
    try {
      for (const { plugin, call } of generation.chain.onConcluded) {
        const failed = (error: unknown): void =>
          this.#log.error('a plugin failed when told of the end of work', {
            plugin,
            exchange: record.request_id,
            error: thrownText(error)
          })
        try {
          // As with `onSettled`, it may be asynchronous.
          const told = call(record) as unknown
          if (told instanceof Promise) told.catch(failed)
        } catch (error) {
          failed(error)
        }
      }
    } finally {
      generation.leave()
    }
  }
}

/**
 * What the upstream counted; of a stream of which it says nothing, what its client was shown, as far as the process
 * knew that has begun it; of what was called off, what went in. Nothing is due for what failed before anything of it
 * was shown, also where its process failed: nobody has it, and nobody can get it.
 */
function consumedOf(
  { status, usage, source = 'upstream' }: Progress,
  { delivered, prompt }: Work,
  hold: Reservation | undefined
): Consumed<Settlement['source']> | undefined {
  if (usage) return { usage, source }
  if (delivered) return { usage: delivered, source: 'partial' }
  if (hold?.sent?.delivered) return { usage: hold.sent.usage, source: 'recovered' }
  return status === 'cancelled' && prompt?.due ? { usage: prompt.usage, source: 'estimated' } : undefined
}

/**
 * The record of the gateway's own work that its exchange did not end: it says whom that had asked, and gives way to the
 * exchange's own, if that comes yet.
 */
function standIn(record: RequestRecord, hold: Reservation | undefined): RequestRecord {
  const channel = record.channel ?? hold?.sent?.channel ?? null
  const attempts =
    record.attempts.length > 0 || channel === null
      ? record.attempts
      : [{ channel, error_code: 'internal_error', duration_ms: 0 }]
  return { ...record, channel, attempts, recovered: true }
}

function finalOf(
  record: RequestRecord,
  { status }: Progress,
  durationMs: number,
  hold: Reservation | undefined,
  settlement: Settlement | undefined
): RequestRecord {
  const amount = settlement?.amount ?? 0n
  return {
    ...record,
    error_code: status === 'succeeded' ? null : codes[status as keyof typeof codes],
    outcome: status === 'succeeded' ? 'completed' : status === 'cancelled' ? 'aborted' : 'failed',
    usage: settlement?.usage ?? null,
    usage_source: settlement?.source ?? null,
    cost_usd: formatDollars(amount),
    cost_nano: String(amount),
    price_version: settlement ? hold!.price.version : null,
    reserved_nano: hold ? String(hold.amount) : record.reserved_nano,
    duration_ms: durationMs
  }
}
