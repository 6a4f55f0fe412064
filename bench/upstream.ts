// The upstream of every scenario, in its own process: prepared answers, streams paced by one timer, and streams that
// stay silent. Large bodies are checked.
import { createServer } from 'node:net'
import type { AddressInfo, Socket } from 'node:net'
import { serve } from './child.ts'
import { sharedMicroseconds } from './clock.ts'
import {
  Script,
  answerBody,
  eventSize,
  model,
  promptBody,
  upstreamModel,
  soundBody,
  transcriptBody,
  uploadBody
} from './payload.ts'
import type { Prompt } from './payload.ts'
import { RequestReader } from './request.ts'
import type { Wanted } from './request.ts'

/** How requests are answered from now on. Streams under way continue as they began. */
export type Behaviour =
  /** A whole JSON body of `size` bytes at once. With a `prompt`, the body of every request must be that prompt. */
  | { kind: 'json'; size: number; prompt?: Prompt }
  /**
   * The transcript of an upload: `size` bytes of JSON. The body of every request must be the upload of `upload` bytes.
   */
  | { kind: 'transcript'; size: number; upload: number }
  /** So many bytes of sound at once. */
  | { kind: 'sound'; size: number }
  /**
   * `events` numbered events, the first at once and then one every `gap` milliseconds. The streams are spread evenly
   * over the gap.
   */
  | { kind: 'paced'; events: number; gap: number }
  /** One event, then nothing until the next behaviour is set, which ends the stream properly. */
  | { kind: 'held' }

const script = new Script()
const streamHead = Buffer.from(
  'HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncache-control: no-cache\r\ntransfer-encoding: chunked\r\n\r\n'
)
const streamEnd = Buffer.concat([chunked(Script.tail), Buffer.from('0\r\n\r\n')])
const frameHead = Buffer.from(`${eventSize.toString(16)}\r\n`)
const frameSize = frameHead.length + eventSize + 2

let behaviour: Behaviour = { kind: 'json', size: 100 }
let answer: Buffer = Buffer.alloc(0)
let wanted: Wanted = []

/** A paced stream. */
interface Stream {
  socket: Socket
  sent: number
  total: number
}

/** One set of streams for each millisecond of the gap. The streams of a set are due when the hand passes it. */
let wheel: Set<Stream>[] = []
let hand = 0
let turned = 0
let timer: NodeJS.Timeout | undefined
const held = new Set<Socket>()

function behave(next: Behaviour): void {
  for (const socket of held) socket.write(streamEnd)
  held.clear()
  behaviour = next
  clearInterval(timer)
  if (next.kind === 'json') answer = wholeAnswer('application/json', answerBody(next.size))
  if (next.kind === 'transcript') answer = wholeAnswer('application/json', transcriptBody(next.size))
  if (next.kind === 'sound') answer = wholeAnswer('audio/mpeg', soundBody(next.size))
  const prompt = next.kind === 'json' ? next.prompt : undefined
  wanted = prompt
    ? [promptBody(prompt, model), promptBody(prompt, upstreamModel)]
    : next.kind === 'transcript'
      ? [uploadBody(next.upload)]
      : []
  if (next.kind === 'paced') {
    wheel = Array.from({ length: next.gap }, () => new Set())
    turned = performance.now()
    timer = setInterval(turn, 1)
  }
}

/** Sends the events that are due. A late timer catches up, so that the rate holds. */
function turn(): void {
  for (const now = performance.now(); turned + 1 <= now; turned++) {
    hand = (hand + 1) % wheel.length
    const due = wheel[hand]!
    // Bytes given to a socket may wait there, so every turn needs memory of its own.
    const frames = Buffer.allocUnsafe(due.size * frameSize)
    let at = 0
    for (const stream of due) {
      stream.socket.write(frames.subarray(at, (at = frame(frames, at, stream.sent++))))
      if (stream.sent < stream.total) continue
      stream.socket.write(streamEnd)
      due.delete(stream)
    }
  }
}

/** Writes one event as a chunk and returns the position after it. */
function frame(into: Buffer, at: number, number: number): number {
  at += frameHead.copy(into, at)
  at += script.event(number, sharedMicroseconds()).copy(into, at)
  into[at++] = 0x0d
  into[at++] = 0x0a
  return at
}

function respond(socket: Socket): void {
  if (behaviour.kind === 'json' || behaviour.kind === 'transcript' || behaviour.kind === 'sound') {
    socket.write(answer)
    return
  }
  const first = Buffer.allocUnsafe(streamHead.length + frameSize)
  frame(first, streamHead.copy(first), 0)
  socket.write(first)
  if (behaviour.kind === 'held') {
    held.add(socket)
    socket.once('close', () => held.delete(socket))
    return
  }
  const stream = { socket, sent: 1, total: behaviour.events }
  const smallest = wheel.reduce((least, slot) => (slot.size < least.size ? slot : least))
  smallest.add(stream)
  socket.once('close', () => smallest.delete(stream))
}

function accept(socket: Socket): void {
  const reader = new RequestReader(
    () => wanted,
    (wrong) => {
      if (wrong === undefined) respond(socket)
      else socket.write(`HTTP/1.1 400 Bad Request\r\ncontent-length: ${wrong.length}\r\n\r\n${wrong}`)
    }
  )
  socket.on('error', () => socket.destroy())
  socket.on('data', (bytes) => reader.read(bytes))
}

function wholeAnswer(type: string, body: Buffer): Buffer {
  return Buffer.concat([
    Buffer.from(`HTTP/1.1 200 OK\r\ncontent-type: ${type}\r\ncontent-length: ${body.length}\r\n\r\n`),
    body
  ])
}

function chunked(bytes: Buffer): Buffer {
  return Buffer.concat([Buffer.from(`${bytes.length.toString(16)}\r\n`), bytes, Buffer.from('\r\n')])
}

const server = createServer({ noDelay: true }, accept)
server.listen({ host: '127.0.0.1', port: 0, backlog: 4096 }, () => {
  serve<Behaviour>({ port: (server.address() as AddressInfo).port }, (next) => {
    behave(next)
    return {}
  })
})
