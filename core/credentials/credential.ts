// One credential that changes: asks its source in time, and keeps what it has while the source fails.
import { GatewayError } from '../errors.ts'
import type { Logger } from '../telling/log.ts'
import { originOf, rhythmOf } from './ask.ts'
import type { Origin } from './ask.ts'
import { isSame, SourceFault, textsOf } from './grant.ts'
import type { Grant, Secret } from './grant.ts'
import type { CredentialSource } from './source.ts'
import { watchFile } from './watch.ts'

/** How long a source may take, in milliseconds. It is no matter of requests, whose limits may be shorter. */
const patience = 10_000
/** The pauses after failures, in milliseconds: each is twice as long as the one before. */
const firstPause = 1000
const longestPause = 30_000
/** How many credentials that are not used any more are still kept from being shown. */
const mostFormer = 3
/** `setTimeout` knows no longer ones. */
const longestTimer = 2 ** 31 - 1
/** A Date has no times beyond this one, in Unix milliseconds. */
const lastTime = 8.64e15
/** The least time between two questions of the timer, in milliseconds, however short the lives of credentials are. */
const leastRhythm = 500

/** What is wrong with a source. Times are in Unix milliseconds. */
export interface Trouble {
  /** Half a sentence without secrets. */
  readonly reason: string
  readonly since: number
}

/** How a credential is, for metrics, `/readyz` and the admin API. */
export interface CredentialState {
  /** The channels that use it. */
  readonly channels: readonly string[]
  /** Undefined while there is none, and for one that nobody gave an end. In Unix milliseconds. */
  readonly expiresAt: number | undefined
  /** Whether there is one that can be used. */
  readonly usable: boolean
  /** Undefined while the source gives what it should. */
  readonly trouble: Trouble | undefined
  /** How often the source gave one, and how often not. */
  readonly asked: { readonly given: number; readonly failed: number }
}

/** What another thread is given: a credential, or why there is none. */
export type Lent = { readonly grant: Grant } | { readonly fault: string }

/** A credential that is kept fresh between {@link start} and {@link stop}. */
export class Credential {
  readonly source: CredentialSource
  /** The channels that use it, once for each use. */
  readonly users: string[] = []
  /** Rises with every new credential. */
  version = 0
  /** How far the clock of the upstream is ahead of this machine's, in milliseconds; for what is signed. */
  skew = 0
  /** Called with each grant that the source has given. */
  onGrant: (grant: Grant) => void = () => {}
  readonly #from: Origin
  readonly #log: Logger
  readonly #stopped = new AbortController()
  readonly #asked = { given: 0, failed: 0 }
  #grant: Grant | undefined
  #former: Secret[] = []
  #trouble: Trouble | undefined
  #failures = 0
  #asking: Promise<void> | undefined
  #timer: NodeJS.Timeout | undefined
  #unwatch = (): void => {}
  #refusedAt = -Infinity
  /** Milliseconds before the end of the present credential at which another is asked for. */
  #lead = 0

  /** `from`: by default the source itself. */
  constructor(source: CredentialSource, log: Logger, from: Origin = originOf(source)) {
    this.source = source
    this.#from = from
    this.#log = log
  }

  /** Asks for the first credential, without waiting for it. Called once. */
  start(): void {
    const { file } = this.#from
    if (file !== undefined) this.#unwatch = watchFile(file, () => void this.#readAgain())
    void this.#renew()
  }

  /** Asks no more, and forgets nothing that requests under way may still need. Called once. */
  stop(): void {
    this.#stopped.abort()
    this.#unwatch()
    clearTimeout(this.#timer)
  }

  /** What is to be sent now; undefined when there is none, or it has ended. */
  get current(): Secret | undefined {
    return this.#usable ? this.#grant!.secret : undefined
  }

  /**
   * Waits for a credential, as all others do that wait. It does not wait for a source that has failed already: another
   * channel can do better.
   * @throws GatewayError `upstream_credential_unavailable`
   */
  async wait(): Promise<Secret> {
    if (!this.#usable && !this.#trouble) await this.#renew()
    const secret = this.current
    if (secret !== undefined) return secret
    const after = Math.min(firstPause * 2 ** this.#failures, longestPause)
    const message = 'There is no credential for the upstream at the moment.'
    const cause = new Error(this.#trouble?.reason ?? 'the credential has ended')
    throw new GatewayError('upstream_credential_unavailable', message, { untaken: true, retryAfterMs: after, cause })
  }

  /**
   * Another credential than the one that an upstream refused; undefined when there is none. However many were refused
   * the same one, the source is asked once; and one that gives what is refused again is not asked for every request.
   */
  async instead(refused: Secret): Promise<Secret | undefined> {
    if (this.#grant?.secret === refused) {
      if (!this.#asking) {
        const now = performance.now()
        if (now - this.#refusedAt < this.#from.rest) return undefined
        this.#refusedAt = now
      }
      await this.#renew(refused)
    }
    return this.#grant?.secret === refused ? undefined : this.current
  }

  /** What another thread is to use, whose upstream has `refused` something. The source is asked as for this one. */
  async lend(refused: Secret | undefined): Promise<Lent> {
    const held = this.#grant
    if (refused !== undefined && held && isSame(held.secret, refused)) await this.instead(held.secret)
    else if (!this.#usable && !this.#trouble) await this.#renew()
    return this.#usable ? { grant: this.#grant! } : { fault: this.#trouble?.reason ?? 'the credential has ended' }
  }

  /** The thread that asks the source has got another one. */
  take(grant: Grant): void {
    if (!this.#stopped.signal.aborted) this.#accept(grant, Date.now())
  }

  /** An upstream has told the time, which is another than that of this machine; `skew` is how far it is ahead. */
  setClock(skew: number): void {
    this.skew = skew
    const { channels } = this.state
    this.#log.error('the clock of this machine differs from that of an upstream, whose time is used for signatures', {
      channels,
      seconds: Math.round(skew / 1000),
      hint: 'set the clock of this machine: certificates and tokens go by it too'
    })
  }

  /** The texts that nobody but the upstream may see: of the present credential, and of those just before it. */
  get texts(): string[] {
    return [...(this.#grant ? [this.#grant.secret] : []), ...this.#former].flatMap(textsOf)
  }

  get state(): CredentialState {
    return {
      channels: [...new Set(this.users)],
      expiresAt: this.#grant?.expiresAt,
      usable: this.#usable,
      trouble: this.#trouble,
      asked: this.#asked
    }
  }

  get #usable(): boolean {
    const grant = this.#grant
    return grant !== undefined && (grant.expiresAt === undefined || Date.now() < grant.expiresAt)
  }

  /** Asks the source, or joins who asks. Never rejects. */
  #renew(refused?: Secret): Promise<void> {
    clearTimeout(this.#timer)
    return (this.#asking ??= this.#askOnce(refused).finally(() => (this.#asking = undefined)))
  }

  /** The file was replaced. Whoever asks at the moment may have read what it was before. */
  async #readAgain(): Promise<void> {
    await this.#asking
    if (!this.#stopped.signal.aborted) await this.#renew()
  }

  async #askOnce(refused: Secret | undefined): Promise<void> {
    const timeout = AbortSignal.timeout(patience)
    const signal = AbortSignal.any([this.#stopped.signal, timeout])
    const begun = Date.now()
    const late = Promise.withResolvers<never>()
    signal.addEventListener('abort', () => late.reject(new SourceFault('its source did not answer in time')))
    try {
      this.#accept(await Promise.race([this.#from.ask(signal, refused), late.promise]), begun)
    } catch (error) {
      if (!this.#stopped.signal.aborted) this.#fail(error)
    }
  }

  #accept({ secret, expiresAt: told }: Grant, begun: number): void {
    if (Number.isNaN(told)) throw new SourceFault('its source gave one whose end is no time')
    const expiresAt = told === undefined ? undefined : Math.min(told, lastTime)
    if (expiresAt !== undefined && expiresAt <= Date.now())
      throw new SourceFault('its source gave one that has ended already')
    const before = this.#grant
    if (before && isSame(before.secret, secret)) this.#grant = { secret: before.secret, expiresAt }
    else {
      if (before) this.#former = [before.secret, ...this.#former].slice(0, mostFormer)
      this.#grant = { secret, expiresAt }
      this.version++
    }
    this.#asked.given++
    this.#failures = 0
    if (this.#trouble) {
      if (this.#from.renews)
        this.#log.info('the credential of channels is fresh again', { channels: this.state.channels })
      this.#trouble = undefined
    }
    this.onGrant(this.#grant!)
    if (!this.#from.renews) return clearTimeout(this.#timer)
    this.#lead = expiresAt === undefined ? 0 : leadOf(expiresAt - begun)
    const rhythm = rhythmOf(this.source, expiresAt)
    const times = [
      ...(rhythm === undefined ? [] : [begun + rhythm]),
      // Processes that began together do not ask together.
      ...(expiresAt === undefined ? [] : [expiresAt - this.#lead * (1 + Math.random() / 10)])
    ]
    if (times.length > 0) this.#askAt(Math.max(Math.min(...times), begun + leastRhythm))
  }

  #fail(error: unknown): void {
    const reason = error instanceof SourceFault ? error.message : `its source failed (${nameOf(error)})`
    const since = this.#trouble?.since ?? Date.now()
    this.#trouble = { reason, since }
    this.#asked.failed++
    const first = this.#lead === 0 ? firstPause : Math.min(firstPause, this.#lead / 4)
    const pause = Math.min(first * 2 ** Math.min(this.#failures++, 10), longestPause)
    const { channels, usable, expiresAt } = this.state
    if (this.#from.renews)
      this.#log[usable ? 'warn' : 'error']('the credential of channels could not be renewed', {
        channels,
        source: this.source.kind,
        reason,
        usable_until:
          usable && expiresAt !== undefined ? new Date(expiresAt).toISOString() : usable ? 'replaced' : 'none'
      })
    this.#askAt(Date.now() + pause)
  }

  #askAt(time: number): void {
    if (this.#stopped.signal.aborted) return
    clearTimeout(this.#timer)
    const ms = Math.min(Math.max(0, time - Date.now()), longestTimer)
    this.#timer = setTimeout(() => void this.#renew(), ms).unref()
  }
}

/** How long before the end of a life of `ms` milliseconds another credential is asked for. */
function leadOf(ms: number): number {
  return ms < 180_000 ? ms / 3 : Math.min(Math.max(ms / 5, 60_000), 300_000)
}

function nameOf(error: unknown): string {
  const { code, name } = error as NodeJS.ErrnoException
  return code ?? name
}
