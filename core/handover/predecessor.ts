// The process whose place this one takes, as this one sees it: its parent.
import { rmSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import type { Deputies } from './deputies.ts'
import { Line } from '../store/distant/line.ts'
import type { Port } from '../store/distant/line.ts'
import { generationVariable } from './messages.ts'
import type { Estate, FromNew, FromOld, Place } from './messages.ts'
import { makeSocketFolder } from './socket-folder.ts'
import type { SocketPlace } from './socket-folder.ts'
import type { Documents } from '../store/documents.ts'
import type { Server } from '../clients/server.ts'
import { thrownMessage } from '../thrown.ts'

/** A process that hands over to this one. */
export class Predecessor {
  /** The number of this process in the row of those that took each other's place. The first is 1. */
  readonly generation: number
  readonly #line: Line
  readonly #place = Promise.withResolvers<Place>()
  readonly #estate = Promise.withResolvers<Estate>()
  #socket: SocketPlace | undefined
  #served = false
  #isGone = false

  private constructor(generation: number) {
    this.generation = generation
    this.#line = new Line(process as Port)
    this.#line.onSaid = (message) => {
      const said = message as FromOld
      if (said.kind === 'place') this.#place.resolve(said.place)
      else this.#estate.resolve(said.estate)
    }
    const gone = (): void => {
      this.#isGone = true
      const error = new Error('the process whose place this one was to take is gone: start the gateway anew')
      this.#place.reject(error)
      this.#estate.reject(error)
    }
    for (const { promise } of [this.#place, this.#estate]) promise.catch(() => {})
    void this.#line.closed.then(gone)
  }

  /** The process that has started this one to take its place; undefined when this is an ordinary start. */
  static find(env: NodeJS.ProcessEnv = process.env): Predecessor | undefined {
    const generation = env[generationVariable]
    delete env[generationVariable]
    return generation === undefined || !process.channel ? undefined : new Predecessor(Number(generation))
  }

  /**
   * Says that everything is loaded. Resolves when the store is free, with what is not in it. `folder`: of the store,
   * for the socket.
   * @throws Error when this process cannot take the place, and says why
   */
  async estate(own: Place, folder: string): Promise<Estate> {
    const place = await this.#place.promise
    for (const [name, remedy] of [
      ['protocol', 'this version hands over in another way: stop the gateway and start it'],
      ['store', 'the place of the store was changed, and a hand-over keeps the store: stop the gateway and start it'],
      ['listen', 'the address in listen was changed, and a hand-over keeps the sockets: stop the gateway and start it'],
      ['admin', 'the address in admin was changed, and a hand-over keeps the sockets: stop the gateway and start it']
    ] as const)
      if (place[name] !== own[name]) throw new Error(`${remedy} (${name}: ${place[name]} before, ${own[name]} now)`)
    if (place.schema > own.schema)
      throw new Error(
        `the store has schema version ${place.schema} and this program knows ${own.schema}: an older version cannot take over from a newer one after a migration`
      )
    // Nothing has changed for anybody yet, should there be no room for it.
    this.#socket = await makeSocketFolder(folder)
    const { folder: made } = this.#socket
    void this.#line.closed.then(() => rm(made, { recursive: true, force: true }))
    this.#say({ kind: 'loaded' })
    return this.#estate.promise
  }

  /**
   * Takes its place, after {@link estate}: serves what still comes on its connections, and with deputies what it still
   * has to do in the store. Resolves when it has been told of that.
   */
  async serve(server: Pick<Server, 'takeFrom'>, deputies?: Deputies, documents?: Documents): Promise<void> {
    const { path } = this.#socket!
    try {
      await server.takeFrom(path, this.#line.closed)
    } catch (error) {
      // It has died, and the folder of the socket has gone with it: nothing comes on its connections any more.
      if (!this.#isGone) throw error
    }
    if (deputies && documents) this.#depute(deputies, documents)
    this.#served = true
    this.#say({ kind: 'serving', path })
  }

  #depute(deputies: Deputies, documents: Documents): void {
    const unwatch = documents.watch((changes) => this.#line.tell('documents', changes))
    void this.#line.closed.then(() => {
      unwatch()
      deputies.end()
    })
    this.#line.serve(deputies.served)
  }

  /** Says why this process cannot take its place. */
  fail(error: unknown): void {
    if (this.#served) return
    // This process ends before its line closes.
    if (this.#socket) rmSync(this.#socket.folder, { recursive: true, force: true })
    this.#say({ kind: 'failed', reason: thrownMessage(error) })
  }

  /** Resolves when it is gone. */
  get gone(): Promise<void> {
    return this.#line.closed
  }

  #say(message: FromNew): void {
    this.#line.say(message)
  }
}
