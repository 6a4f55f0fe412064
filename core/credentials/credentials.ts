// The credentials that channels use and that change, one for each source, kept across reloads.
import type { Logger } from '../telling/log.ts'
import type { Metrics } from '../telling/metrics.ts'
import { Credential } from './credential.ts'
import type { CredentialState } from './credential.ts'
import { keyOf } from './source.ts'
import type { CredentialSource, LivingCredential } from './source.ts'

/** What this knows of a channel. */
interface User {
  readonly name: string
  readonly living?: LivingCredential | undefined
}

/** By the source of a channel, for whoever has only the channel. */
const found = new WeakMap<CredentialSource, Credential>()

/** The credential of a source; undefined before a generation with its channel was prepared. */
export function credentialOf(source: CredentialSource): Credential | undefined {
  return found.get(source)
}

/** The credentials of one gateway. */
export class Credentials {
  readonly #log: Logger
  readonly #all = new Map<string, Credential>()

  constructor(log: Logger) {
    this.#log = log
  }

  /**
   * Begins to keep the credentials of these channels fresh; called before the first request to them. Sources that equal
   * those of an earlier call are not asked anew. The returned function is called once when the channels are not used
   * any more.
   */
  use(channels: Iterable<User>): () => void {
    const used: (readonly [Credential, string])[] = []
    for (const { name, living } of channels) {
      if (!living) continue
      const key = keyOf(living.source)
      let credential = this.#all.get(key)
      const isNew = credential === undefined
      if (!credential) this.#all.set(key, (credential = new Credential(living.source, this.#log)))
      credential.users.push(name)
      found.set(living.source, credential)
      used.push([credential, name])
      if (isNew) credential.start()
    }
    return () => {
      for (const [credential, name] of used) {
        credential.users.splice(credential.users.indexOf(name), 1)
        if (credential.users.length > 0) continue
        this.#all.delete(keyOf(credential.source))
        credential.stop()
      }
    }
  }

  /** How each of them is. */
  get states(): CredentialState[] {
    return Array.from(this.#all.values(), ({ state }) => state)
  }

  /** A sentence for each source that gives nothing, for `/readyz`. */
  get reasons(): string[] {
    return this.states.flatMap(({ channels, trouble, usable, expiresAt }) => {
      if (!trouble) return []
      const until = expiresAt === undefined ? '' : ` until ${new Date(expiresAt).toISOString()}`
      const rest = usable ? `the old one is used${until}` : 'there is none'
      const since = new Date(trouble.since).toISOString()
      return [`credential of ${channels.join(', ')}: ${trouble.reason}, since ${since}; ${rest}`]
    })
  }
}

/** Registers the metrics of credentials, which are read at each scrape. Called once per gateway. */
export function observeCredentials(credentials: Credentials, metrics: Pick<Metrics, 'observed'>): void {
  const ofEach = <T>(read: (state: CredentialState, channel: string) => T[]): T[] =>
    credentials.states.flatMap((state) => state.channels.flatMap((channel) => read(state, channel)))
  metrics.observed(
    {
      name: 'credential_expiry_timestamp_seconds',
      help: 'When the present credential of a channel ends, where its source said so.',
      labels: ['channel'],
      aggregator: 'min'
    },
    () =>
      ofEach(({ expiresAt }, channel) =>
        expiresAt === undefined ? [] : [[{ channel }, Math.round(expiresAt / 1000)] as const]
      )
  )
  metrics.observed(
    {
      name: 'credential_healthy',
      help: '1 while the source of a channel gives credentials, 0 while it fails.',
      labels: ['channel'],
      aggregator: 'min'
    },
    () => ofEach(({ trouble }, channel) => [[{ channel }, Number(!trouble)] as const])
  )
  metrics.observed(
    {
      name: 'credential_requests_total',
      help: 'Times the source of a channel was asked for a credential, by what came of it.',
      labels: ['channel', 'outcome']
    },
    () =>
      ofEach(({ asked }, channel) => [
        [{ channel, outcome: 'given' }, asked.given] as const,
        [{ channel, outcome: 'failed' }, asked.failed] as const
      ])
  )
}
