// The load generator of every scenario, in its own process: closed loops, paced streams, held streams. Every answer is
// checked.
import { createHistogram } from 'node:perf_hooks'
import { setTimeout as delay } from 'node:timers/promises'
import { serve } from './child.ts'
import { sharedMicroseconds } from './clock.ts'
import { Connection } from './connection.ts'
import type { Spoken } from './contestant.ts'
import {
  answerBody,
  key,
  messagesBody,
  messagesPath,
  model,
  numberedKey,
  promptBody,
  requestBody,
  requestBytes,
  soundBody,
  speechBody,
  speechPath,
  transcriptBody,
  transcriptionsPath,
  uploadBody,
  uploadType
} from './payload.ts'
import type { Prompt } from './payload.ts'
import { cpuBetween, cpuOf, familyCpuOf } from './proc.ts'
import type { Cpu } from './proc.ts'
import { ExpectedMessages } from './messages.ts'
import { ExpectedBody, ExpectedEvents } from './response.ts'

/**
 * A task for the load generator. `pid`: the process whose CPU time is read at both ends of the measured window;
 * `servers`: others, of which that of all that they have started counts, too.
 */
export type Job =
  /**
   * A closed loop: every connection sends the next request as soon as its answer is complete. With `rate`, connections
   * that have their answer wait, and so many requests a second are sent by them together.
   */
  | ({
      kind: 'json'
      port: number
      pid: number
      servers?: readonly number[] | undefined
      connections: number
      requests: Requests
      answerSize: number
      rate?: number | undefined
    } & Window)
  /**
   * One stream per connection, all at the same time. They last longer than the window, and all are read to their end.
   */
  | ({
      kind: 'paced'
      port: number
      pid: number
      streams: number
      events: number
      requestSize: number
      speaks: Spoken
    } & Window)
  /** Opens streams until so many are open; finishes when each has its first event. */
  | { kind: 'hold'; port: number; streams: number; requestSize: number }
  /** Waits until every held stream has ended properly. */
  | { kind: 'release' }

/**
 * The requests of a closed loop: small bodies (with one key, or with many in turn), one large body, a form with a file
 * of so many bytes, or requests for speech.
 */
export type Requests =
  | { size: number; keys: number | undefined }
  | { prompt: Prompt }
  | { upload: number }
  | { speech: true }

/** Seconds before the measured window, and in it. */
interface Window {
  warm: number
  seconds: number
}

/** The result of a job. */
export interface Measured {
  /** The CPU time used in the window. */
  cpu: Cpu
  /** Microseconds of CPU time of each of the servers in the window. */
  servers: readonly number[]
  /** The length of the window. */
  seconds: number
  /** The number of whole answers or events in the window. */
  count: number
  /** Microseconds: the time of each whole answer; of each event, from its sending by the upstream to its arrival. */
  p50: number
  p99: number
  /**
   * Answers of the whole job, also outside the window, that were wrong, cut or missing, and the reason of the first.
   */
  failed: number
  reason: string
}

let count = 0
let failed = 0
let reason = ''
const histogram = createHistogram()
/** The streams of `hold` that have not ended. */
const held = new Set<Connection>()

function fail(why: string): void {
  failed++
  reason ||= why
}

/** Records a duration in the histogram, which takes whole microseconds from 1 on. */
function record(microseconds: number): void {
  histogram.record(Math.max(1, Math.round(microseconds)))
}

async function json(job: Job & { kind: 'json' }): Promise<void> {
  const next = cycle(job.requests)
  const body = answerTo(job.requests, job.answerSize)
  const asking = new Set<Connection>()
  const pace = job.rate === undefined ? undefined : new Pace(job.rate)
  let over = false
  const start = () => {
    let sent = 0
    const connection = new Connection(
      job.port,
      new ExpectedBody(body),
      () => {
        record((performance.now() - sent) * 1000)
        count++
        if (!over) return ask()
        asking.delete(connection)
        connection.close()
      },
      (why) => {
        fail(why)
        asking.delete(connection)
        // A pause, because a gateway that refuses every connection would otherwise be asked in a tight loop.
        if (!over) setTimeout(start, 50)
      }
    )
    const send = () => {
      asking.add(connection)
      sent = performance.now()
      connection.send(next())
    }
    const ask = () => {
      if (!pace) return send()
      asking.delete(connection)
      pace.waiting.push({ send, leave: () => connection.close() })
    }
    ask()
  }
  for (let opened = 0; opened < job.connections; opened++) start()
  await measure(job)
  over = true
  pace?.end()
  await ended(asking, 5)
}

/** Lets connections send at a steady rate, whoever has waited for longest first. */
class Pace {
  readonly waiting: { send(): void; leave(): void }[] = []
  readonly #timer: NodeJS.Timeout

  /** `rate`: how many a second. */
  constructor(rate: number) {
    let due = 0
    let before = performance.now()
    this.#timer = setInterval(() => {
      const now = performance.now()
      due += ((now - before) / 1000) * rate
      before = now
      for (; due >= 1 && this.waiting.length > 0; due--) this.waiting.shift()!.send()
      // What nobody was free for is not made up for in a burst.
      due = Math.min(due, 1)
    }, 1)
  }

  end(): void {
    clearInterval(this.#timer)
    for (const { leave } of this.waiting) leave()
  }
}

function answerTo(requests: Requests, size: number): Buffer {
  if ('upload' in requests) return transcriptBody(size)
  return 'speech' in requests ? soundBody(size) : answerBody(size)
}

/** Which of many keys is next. It goes on from job to job, so that all of them are used however short a window is. */
let turn = 0
/** From one key to the next: a prime number, so that all have their turn and no neighbours follow each other. */
const stride = 61_813

/** Gives the requests in turn, over and over. */
function cycle(requests: Requests): () => Buffer {
  if ('prompt' in requests) {
    const request = requestBytes(promptBody(requests.prompt, model))
    return () => request
  }
  if ('upload' in requests) {
    const request = requestBytes(uploadBody(requests.upload), key, transcriptionsPath, uploadType)
    return () => request
  }
  if ('speech' in requests) {
    const request = requestBytes(speechBody, key, speechPath)
    return () => request
  }
  const body = requestBody(requests.size, false)
  const { keys } = requests
  const all =
    keys === undefined
      ? [requestBytes(body)]
      : Array.from({ length: keys }, (_, number) => requestBytes(body, numberedKey(number + 1)))
  return () => all[(turn++ * stride) % all.length]!
}

async function paced(job: Job & { kind: 'paced' }): Promise<void> {
  const chat = job.speaks === 'chat'
  const request = chat
    ? requestBytes(requestBody(job.requestSize, true))
    : requestBytes(messagesBody(job.requestSize), key, messagesPath)
  const Expected = chat ? ExpectedEvents : ExpectedMessages
  const open = new Set<Connection>()
  for (let opened = 0; opened < job.streams; opened++) {
    const expected = new Expected(job.events, (sentAt) => {
      record(sharedMicroseconds() - sentAt)
      count++
    })
    const connection = new Connection(
      job.port,
      expected,
      () => {
        open.delete(connection)
        connection.close()
      },
      (why) => {
        fail(why)
        open.delete(connection)
      }
    )
    open.add(connection)
    connection.send(request)
  }
  await measure(job)
  await ended(open, 10)
}

/** Opens a few streams at a time: when a listen queue overflows, that costs a second. */
async function hold(job: Job & { kind: 'hold' }): Promise<void> {
  const request = requestBytes(requestBody(job.requestSize, true))
  const opening = new Set<Promise<void>>()
  for (let opened = held.size; opened < job.streams; opened++) {
    const { promise, resolve } = Promise.withResolvers<void>()
    const connection = new Connection(
      job.port,
      new ExpectedEvents(1, () => resolve()),
      () => {
        held.delete(connection)
        connection.close()
      },
      (why) => {
        fail(why)
        held.delete(connection)
        resolve()
      }
    )
    held.add(connection)
    connection.send(request)
    opening.add(promise)
    void promise.then(() => opening.delete(promise))
    if (opening.size >= 32) await Promise.race(opening)
  }
  await Promise.race([Promise.all(opening), delay(10_000)])
  if (opening.size > 0) fail(`${opening.size} streams did not begin`)
}

/** Waits for the window to pass, and stores what was counted in it. */
async function measure({
  pid,
  servers = [],
  warm,
  seconds
}: Window & { pid: number; servers?: readonly number[] | undefined }): Promise<void> {
  await delay(warm * 1000)
  const cpu = cpuOf(pid)
  const others = servers.map(familyCpuOf)
  const started = performance.now()
  const before = count
  histogram.reset()
  await delay(seconds * 1000)
  seen = {
    cpu: cpuBetween(cpu, cpuOf(pid)),
    servers: servers.map((server, at) => familyCpuOf(server) - others[at]!),
    seconds: (performance.now() - started) / 1000,
    count: count - before,
    // Percentiles of an empty histogram are 0.
    p50: histogram.percentile(50),
    p99: histogram.percentile(99)
  }
}

const nothing = { cpu: { user: 0, sys: 0, beside: 0 }, servers: [], seconds: 0, count: 0, p50: 0, p99: 0 }
let seen: Omit<Measured, 'failed' | 'reason'> = nothing

/** Waits for the last answers. Those that do not come in time have failed. */
async function ended(open: Set<Connection>, seconds: number): Promise<void> {
  for (const limit = performance.now() + seconds * 1000; open.size > 0 && performance.now() < limit;) await delay(10)
  for (const connection of open) {
    fail('an answer did not come to its end')
    connection.close()
  }
  open.clear()
}

serve<Job>({}, async (job): Promise<Measured> => {
  failed = 0
  reason = ''
  seen = nothing
  switch (job.kind) {
    case 'json':
      await json(job)
      break
    case 'paced':
      await paced(job)
      break
    case 'hold':
      await hold(job)
      break
    case 'release':
      await ended(held, 10)
  }
  return { ...seen, failed, reason }
})
