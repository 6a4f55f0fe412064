// The raw connection of a client: sends prepared requests and checks the answers.
import { connect } from 'node:net'
import type { Socket } from 'node:net'
import { ResponseReader } from './response.ts'
import type { Expected } from './response.ts'

/** The memory that all connections read into. Each read is processed before the next one happens. */
const shared = Buffer.allocUnsafe(64 * 1024)

/** One connection that is kept alive. Requests are not pipelined. */
export class Connection {
  readonly #socket: Socket
  #over = false

  /**
   * `onAnswer` runs after each complete and correct answer. `onLost` runs at most once, after a wrong byte, an error or
   * an early close.
   */
  constructor(port: number, expected: Expected, onAnswer: () => void, onLost: (reason: string) => void) {
    const lose = (error?: Error) => {
      if (this.#over) return
      this.close()
      onLost(error?.message ?? 'the connection was closed')
    }
    const reader = new ResponseReader(expected, onAnswer)
    const callback = (size: number) => {
      try {
        reader.read(shared.subarray(0, size))
      } catch (error) {
        lose(error as Error)
      }
      return true
    }
    this.#socket = connect({ host: '127.0.0.1', port, noDelay: true, onread: { buffer: shared, callback } })
    this.#socket.on('error', lose)
    this.#socket.on('close', () => lose())
  }

  send(request: Buffer): void {
    this.#socket.write(request)
  }

  close(): void {
    this.#over = true
    this.#socket.destroy()
  }
}
