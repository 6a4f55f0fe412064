// A client's raw connection: sends prebuilt requests and checks what comes back.
import { connect } from 'node:net'
import type { Socket } from 'node:net'
import { ResponseReader } from './response.ts'
import type { Expected } from './response.ts'

/** Every read of every connection goes here: it is looked at before the next one happens. */
const shared = Buffer.allocUnsafe(64 * 1024)

/** Keep-alive, no pipelining. */
export class Connection {
  readonly #socket: Socket
  #over = false

  /**
   * `onAnswer` runs after each complete and right answer, `onLost` at most once: a wrong byte, an error or an early
   * close.
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
