// Accepts or refuses the handshakes of realtime sessions.
import type { IncomingMessage } from 'node:http'
import { createRequire } from 'node:module'
import type { Duplex } from 'node:stream'
import type * as Library from 'ws'
import { Refusal } from '../../refusal.ts'
import type { Stats } from '../../stats.ts'
import type { Wheel } from '../../wheel.ts'
import { RealtimeSession } from './session.ts'

const require = createRequire(import.meta.url)
const path = '/v1/realtime'
const longestMessage = 32 * 1024 * 1024

/** What clients must show, and what sessions need. */
export interface DoorParts {
  key: string | undefined
  models: readonly string[] | undefined
  wheel: Wheel
  stats: Stats
}

/** Handles upgrade requests of a server. */
export class RealtimeDoor {
  readonly #parts: DoorParts
  #server: Library.WebSocketServer | undefined
  #sessions = 0

  constructor(parts: DoorParts) {
    this.#parts = parts
  }

  /** Opens a session, or refuses to. */
  open(request: IncomingMessage, stream: Duplex, head: Buffer): void {
    const { wheel, stats } = this.#parts
    stream.on('error', () => {})
    let model: string
    try {
      model = this.#admitted(request)
    } catch (error) {
      const { status, message, details } = error as Refusal
      const body = JSON.stringify({
        error: { message, type: 'invalid_request_error', param: details.param ?? null, code: details.code ?? null }
      })
      stats.refused++
      stream.end(
        `HTTP/1.1 ${status} Refused\r\nContent-Type: application/json\r\nContent-Length: ${Buffer.byteLength(body)}\r\nConnection: close\r\n\r\n${body}`
      )
      return
    }
    this.#server ??= serverOf(require('ws'))
    this.#server.handleUpgrade(request, stream, head, (socket) => {
      new RealtimeSession({
        socket,
        stream,
        model,
        name: `${String(++this.#sessions).padStart(4, '0')}x`,
        wheel,
        stats
      })
    })
  }

  /** Ends all sessions at once. */
  close(): void {
    for (const socket of this.#server?.clients ?? []) socket.terminate()
  }

  /**
   * The model that the request asks for.
   * @throws Refusal
   */
  #admitted({ url = '', headers: { authorization } }: IncomingMessage): string {
    const { key, models } = this.#parts
    const [at, query] = url.split('?', 2)
    if (at !== path) throw new Refusal(404, `Invalid URL (GET ${at})`)
    if (key !== undefined && authorization !== `Bearer ${key}`)
      throw new Refusal(401, 'Incorrect API key provided.', { code: 'invalid_api_key' })
    const model = new URLSearchParams(query).get('model')
    if (!model) throw new Refusal(400, 'you must provide a model parameter', { param: 'model', code: 'missing_model' })
    if (models && !models.includes(model))
      throw new Refusal(404, `The model \`${model}\` does not exist or you do not have access to it.`, {
        param: 'model',
        code: 'model_not_found'
      })
    return model
  }
}

/** `ws`: the library, which is loaded for the first session. */
function serverOf(ws: typeof Library): Library.WebSocketServer {
  return new ws.WebSocketServer({
    noServer: true,
    perMessageDeflate: false,
    maxPayload: longestMessage,
    clientTracking: true,
    handleProtocols: (offered) => (offered.has('realtime') ? 'realtime' : false)
  })
}
