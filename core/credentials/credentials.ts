// The credentials that channels use and that change, one for each source, kept across reloads.
import type { Logger } from '../telling/log.ts'
import type { Metrics } from '../telling/metrics.ts'
import type { Origin } from './ask.ts'
import { Credential } from './credential.ts'
import type { CredentialState, Lent } from './credential.ts'
import { SourceFault } from './grant.ts'
import type { Grant, Secret } from './grant.ts'
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

/** Asks the thread that renews the credentials of all: by the key of the source, see {@link Credentials.lend}. */
export type Lender = (key: string, refused: Secret | undefined) => Promise<Lent>

/** The credentials of one gateway, or of one of its workers. */
export class Credentials {
  /** Called with each grant that a source has given, by the key of the source. */
  onGrant: (key: string, grant: Grant) => void = () => {}
  readonly #log: Logger
  readonly #lender: Lender | undefined
  readonly #all = new Map<string, Credential>()

  /** `lender`: in a worker, which asks no source by itself. */
  constructor(log: Logger, lender?: Lender) {
    this.#log = log
    this.#lender = lender
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
      if (!credential) {
        const from = this.#lender && lentBy(this.#lender, key)
        this.#all.set(key, (credential = new Credential(living.source, this.#log, from)))
        credential.onGrant = (grant) => this.onGrant(key, grant)
      }
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

  /** What a worker is to use, whose upstream has `refused` something. Never rejects. */
  async lend(key: string, refused: Secret | undefined): Promise<Lent> {
    return (await this.#all.get(key)?.lend(refused)) ?? { fault: 'no channel uses it any more' }
  }

  /** The thread that renews credentials has another one for a source. */
  take(key: string, grant: Grant): void {
    this.#all.get(key)?.take(grant)
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

/** The origin of a credential that another thread renews, and tells of. */
function lentBy(lender: Lender, key: string): Origin {
  return {
    async ask(_signal, refused) {
      const lent = await lender(key, refused)
      if ('grant' in lent) return lent.grant
      throw new SourceFault(lent.fault)
    },
    file: undefined,
    renews: false,
    rest: 0
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
