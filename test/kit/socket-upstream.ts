// An upstream of realtime sessions that a test controls, frame by frame or byte by byte.
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { IncomingMessage } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import type { AddressInfo, Socket } from 'node:net'
import type { Test } from 'tap'
import { WebSocketServer } from 'ws'
import type { WebSocket } from 'ws'
import type { Certificate } from './certificate.ts'

/** A session on the upstream's side. */
export interface Peer {
  request: IncomingMessage
  stream: Socket
  /** Undefined for a raw upstream, where the test writes bytes. */
  socket: WebSocket | undefined
}

/** An upstream and the sessions that were opened with it. */
export interface SocketUpstream {
  readonly url: URL
  readonly peers: Peer[]
  /** Sent in place of the answer to the next handshakes; undefined to accept them. A function decides about each. */
  refuse: string | ((request: IncomingMessage) => string | undefined) | undefined
  /** The n-th session, counted from 1. */
  peer(n?: number): Promise<Peer>
}

/** How an upstream answers handshakes. */
export interface SocketUpstreamOptions {
  /** Accepts, and then sends nothing but what the test writes to the stream. */
  raw?: boolean
  /** Additional header lines in the answer to a handshake. Only with `raw`. */
  lines?: readonly string[]
  /** Never answers. */
  silent?: boolean
  /** Uses TLS with this certificate. */
  certificate?: Certificate
}

/** Starts an upstream on a free port. It is closed with all its sessions when the test is over. */
export async function socketUpstream(
  t: Test,
  { raw = false, lines = [], silent = false, certificate }: SocketUpstreamOptions = {}
): Promise<SocketUpstream> {
  const peers: Peer[] = []
  const waiting: (() => void)[] = []
  const sockets = new WebSocketServer({ noServer: true, perMessageDeflate: false })
  const server = certificate ? createTlsServer(certificate.pem) : createServer()
  const add = (peer: Peer): void => {
    peers.push(peer)
    for (const resolve of waiting.splice(0)) resolve()
  }
  server.on('upgrade', (request, stream, head) => {
    stream.on('error', () => {})
    if (silent) return
    const refusal = typeof upstream.refuse === 'function' ? upstream.refuse(request) : upstream.refuse
    if (refusal !== undefined) return void stream.end(refusal)
    if (!raw)
      return sockets.handleUpgrade(request, stream, head, (socket) =>
        add({ request, stream: stream as Socket, socket: socket.on('error', () => {}) })
      )
    const accept = createHash('sha1')
      .update(`${request.headers['sec-websocket-key']}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`)
      .digest('base64')
    stream.write(
      `HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ${accept}\r\n${lines.map((line) => `${line}\r\n`).join('')}\r\n`
    )
    add({ request, stream: stream as Socket, socket: undefined })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    for (const { stream } of peers) stream.destroy()
    server.close()
  })
  const upstream: SocketUpstream = {
    url: new URL(`${certificate ? 'https' : 'http'}://127.0.0.1:${(server.address() as AddressInfo).port}/v1`),
    peers,
    refuse: undefined,
    async peer(n = 1) {
      while (peers.length < n) await new Promise<void>((resolve) => void waiting.push(resolve))
      return peers[n - 1]!
    }
  }
  return upstream
}

/** Parts of gateway.yaml with this upstream as the only channel. */
export function sessionsAt(
  { url }: Pick<SocketUpstream, 'url'>,
  more: Record<string, unknown> = {}
): Record<string, unknown> {
  return {
    channels: {
      demo: {
        protocol: 'openai',
        base_url: url.href,
        credential: 'upstream-secret-0000',
        private: true,
        endpoints: ['realtime'],
        models: { demo: 'demo-upstream' },
        ...more
      }
    },
    models: {
      demo: { price: { input: 1, output: 2, audio_output: 4 }, context_window: 10_000, max_output_tokens: 1000 }
    }
  }
}

/** The fields of a frame's head (RFC 6455 §5.2). */
export interface FrameParts {
  opcode: number
  fin?: boolean
  reserved?: number
  masked?: boolean
  /** Sent in place of the real length. */
  length?: number
}

/** The bytes of a frame, valid or not. */
export function frameBytes(
  payload: Buffer | string,
  { opcode, fin = true, reserved = 0, masked = false, length }: FrameParts
): Buffer {
  const data = Buffer.from(payload)
  const said = length ?? data.length
  const size =
    said < 126 ? Buffer.from([said]) : said < 65536 ? Buffer.from([126, said >> 8, said & 255]) : Buffer.alloc(9)
  if (size.length === 9) {
    size[0] = 127
    size.writeBigUInt64BE(BigInt(said), 1)
  }
  if (masked) size[0]! |= 0x80
  const mask = Buffer.from([0x12, 0x34, 0x56, 0x78])
  const body = masked ? Buffer.concat([mask, data.map((byte, at) => byte ^ mask[at % 4]!)]) : data
  return Buffer.concat([Buffer.from([(fin ? 0x80 : 0) | (reserved << 4) | opcode]), size, body])
}

/** A frame that was read. */
export interface ReadFrame {
  opcode: number
  payload: Buffer
}

/** Reads the whole frames at the beginning of the bytes. An incomplete frame after them is ignored. */
export function readFrames(bytes: Buffer): ReadFrame[] {
  const frames: ReadFrame[] = []
  for (let at = 0; at + 2 <= bytes.length;) {
    const opcode = bytes[at]! & 15
    const masked = (bytes[at + 1]! & 0x80) !== 0
    let length = bytes[at + 1]! & 127
    at += 2
    if (length === 126) {
      length = bytes.readUInt16BE(at)
      at += 2
    } else if (length === 127) {
      length = Number(bytes.readBigUInt64BE(at))
      at += 8
    }
    const mask = masked ? bytes.subarray(at, at + 4) : undefined
    if (masked) at += 4
    if (at + length > bytes.length) break
    const payload = Buffer.from(bytes.subarray(at, at + length))
    frames.push({ opcode, payload: mask ? Buffer.from(payload.map((byte, i) => byte ^ mask[i % 4]!)) : payload })
    at += length
  }
  return frames
}
