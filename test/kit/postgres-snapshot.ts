// An earlier state of a server: it comes back with it as a standby does that lacked what was committed since.
import { execFileSync } from 'node:child_process'
import { rmSync } from 'node:fs'
import { dirname, join } from 'node:path'
import type { Postgres } from './postgres.ts'

/** The data of a server at one moment. It restarts for that. */
export class Snapshot {
  readonly #server: Postgres
  readonly #data: string
  readonly #copy: string

  private constructor(server: Postgres) {
    this.#server = server
    this.#data = join(dirname(server.socket), 'data')
    this.#copy = `${this.#data}-copy`
  }

  static async take(server: Postgres): Promise<Snapshot> {
    const snapshot = new Snapshot(server)
    await server.stop('INT')
    execFileSync('cp', ['-a', snapshot.#data, snapshot.#copy])
    await server.resume()
    return snapshot
  }

  /** Has the server, which may be stopped, go on with it. `before`: what is done while it is stopped. */
  async restore(before?: () => Promise<void>): Promise<void> {
    await this.#server.stop('QUIT')
    await before?.()
    rmSync(this.#data, { recursive: true })
    execFileSync('mv', [this.#copy, this.#data])
    await this.#server.resume()
  }
}
