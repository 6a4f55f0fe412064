// A sink that keeps what it hears, and channels to send to.
import type { Channel } from '../../../core/catalogue/catalogue.ts'
import type { GatewayError } from '../../../core/errors.ts'
import type { UpstreamCall, UpstreamHeaders, UpstreamRequest, UpstreamSink } from '../../../core/transport/transport.ts'
import type { HttpTransport } from '../../../core/transport/transport.ts'

/** Keeps an answer; `on` may act in any call. Throws when it hears what its contract rules out. */
export class Recorder implements UpstreamSink {
  status = 0
  headers: UpstreamHeaders = {}
  readonly chunks: Buffer[] = []
  error: GatewayError | undefined
  /** `head`, `data`, `end`, `error`, in their order. */
  readonly heard: string[] = []
  /** Resolves with the end or the error. */
  readonly over: Promise<this>
  call!: UpstreamCall
  readonly #on: (what: string, recorder: Recorder) => void
  #finish!: (recorder: this) => void

  constructor(on: (what: string, recorder: Recorder) => void = () => {}) {
    this.#on = on
    this.over = new Promise((resolve) => (this.#finish = resolve))
  }

  onHead(status: number, headers: UpstreamHeaders): void {
    this.status = status
    this.headers = headers
    this.#hear('head')
  }

  onData(chunk: Buffer): void {
    this.chunks.push(chunk)
    this.#hear('data')
  }

  onEnd(): void {
    this.#finish(this)
    this.#hear('end')
  }

  onError(error: GatewayError): void {
    this.error = error
    this.#finish(this)
    this.#hear('error')
  }

  get body(): string {
    return Buffer.concat(this.chunks).toString('latin1')
  }

  #hear(what: string): void {
    this.heard.push(what)
    this.#on(what, this)
  }
}

/** A channel to that address, private unless said otherwise. */
export function channelOf(baseUrl: URL, more: Partial<Channel> = {}): Channel {
  return {
    name: 'up',
    protocol: 'openai',
    baseUrl,
    credential: 'secret',
    endpoints: new Set(),
    private: true,
    models: new Map(),
    switch: 'on',
    weight: 1,
    priority: 0,
    timeouts: { connect: 20_000, firstByte: 2000, idle: 2000, total: 2000 },
    headers: {},
    modelPath: undefined,
    traits: {},
    tls: undefined,
    reuse: true,
    streamOptions: true,
    proxy: undefined,
    http: 1,
    transport: 'own',
    ...more
  }
}

/** Sends a request and gives the recorder of its answer. */
export function ask(
  transport: HttpTransport,
  channel: Channel,
  request: Partial<UpstreamRequest> = {},
  recorder = new Recorder()
): Recorder {
  recorder.call = transport.send(
    channel,
    { method: 'POST', path: '/chat', headers: [], body: [Buffer.from('{}')], ...request },
    recorder
  )
  return recorder
}
