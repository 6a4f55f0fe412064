// Whole gateways on one store in PostgreSQL and Redis, for tests of what holds over several of them.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Test } from 'tap'
import { gateway, spawnGateway } from './gateway.ts'
import type { GatewaySetup, LocalGateway, Overrides, SpawnedGateway } from './gateway.ts'
import { postgresMissing, sharedPostgres } from './postgres.ts'
import { RedisServer, redisMissing } from './redis.ts'

/** Why tests of several gateways are skipped; false when they are not. */
export const nodesMissing = postgresMissing || redisMissing

/** One installation: a database of its own, and a Redis. */
export class Installation {
  readonly database: string
  readonly redis: RedisServer
  readonly #t: Test
  readonly #overrides: Overrides
  readonly #setup: GatewaySetup

  private constructor(t: Test, database: string, redis: RedisServer, overrides: Overrides, setup: GatewaySetup) {
    this.#t = t
    this.database = database
    this.redis = redis
    this.#overrides = overrides
    this.#setup = setup
  }

  /** Makes an empty one. `overrides` and `setup` are those of each of its gateways. */
  static async make(t: Test, overrides: Overrides = {}, setup: GatewaySetup = {}): Promise<Installation> {
    const server = await sharedPostgres()
    return new Installation(t, await server.book(), await RedisServer.start(t), overrides, setup)
  }

  /** Starts a gateway in this process, as on a machine of its own. `url`: how it reaches the database. */
  node(overrides: Overrides = {}, url = this.database): Promise<LocalGateway> {
    const { folder, all } = this.#next(overrides, url)
    return gateway(this.#t, all, { ...this.#setup, folder })
  }

  /** Starts a gateway in a process of its own. */
  process(overrides: Overrides = {}): Promise<SpawnedGateway> {
    const { folder, all } = this.#next(overrides)
    const { upstreams, env } = this.#setup
    return spawnGateway(this.#t, all, { ...(upstreams && { upstreams }), ...(env && { env }), folder })
  }

  /** Asks the database. */
  async sql(text: string): Promise<any[]> {
    return (await sharedPostgres()).sql(text, this.database)
  }

  /** The section `store` of a gateway; `folder` is its own. */
  store(folder: string, postgres = this.database): object {
    // A busy machine has time to answer.
    const redis = { url: this.redis.url, command_timeout: '2s' }
    return { sqlite: undefined, durability: 'process', postgres, redis, folder }
  }

  #next(overrides: Overrides, url?: string): { folder: string; all: Overrides } {
    const folder = mkdtempSync(join(tmpdir(), 'sluice-node-'))
    this.#t.teardown(() => rmSync(folder, { recursive: true, force: true }))
    return { folder, all: { ...this.#overrides, ...overrides, store: this.store(join(folder, 'own'), url) } }
  }
}
