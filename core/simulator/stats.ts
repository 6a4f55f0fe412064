// What the simulator knows to be true about the traffic it saw, to be held against what a gateway recorded.
import type { Upload } from './body.ts'
import type { Ending } from './ending.ts'

/** Answers that are remembered by request id. */
const remembered = 10_000
const rememberedUploads = 100

/** A file that arrived whole. */
export interface Received extends Omit<Upload, 'head'> {
  /** The request's `x-request-id`. */
  request: string | undefined
}

/** What an answer is worth. What it has none of may be left out. */
export interface Counts {
  /** Tokens of the request, those from a cache and those written to one included. */
  prompt?: number
  cached?: number
  written?: number
  /** Tokens of the answer, reasoning included. */
  completion?: number
  reasoning?: number
  images?: number
  /** Of sound or video, sent or made. */
  seconds?: number
  /** Of text that was spoken. */
  characters?: number
  /** Search units of reranking. */
  searches?: number
}

/** Counts since the start. */
export class Stats {
  /** Requests whose body arrived whole. */
  requests = 0
  refused = 0
  completed = 0
  cut = 0
  aborted = 0
  /** Answers being written, and sockets open, now. */
  active = 0
  connections = 0
  /** The sum over everything that was completed. */
  readonly counted: Counts = {}
  /** What was completed, by the request's `x-request-id`, the newest 10,000. */
  readonly byRequest = new Map<string, Counts>()

  /** The newest 100 files. */
  readonly uploads: Received[] = []

  /** Files arrived with a request. */
  received(files: readonly Upload[], request: string | undefined): void {
    for (const { head: _, ...file } of files) this.uploads.push({ request, ...file })
    this.uploads.splice(0, this.uploads.length - rememberedUploads)
  }

  /** An answer is over. */
  ended(ending: Ending, counts: Counts | undefined, requestId: string | undefined): void {
    this.active--
    this[ending]++
    if (ending === 'completed' && counts) this.count(counts, requestId)
  }

  /** Something was completed. */
  count(counts: Counts, requestId: string | undefined): void {
    for (const [name, count] of Object.entries(counts) as [keyof Counts, number][])
      this.counted[name] = (this.counted[name] ?? 0) + count
    if (requestId === undefined) return
    if (this.byRequest.size >= remembered) this.byRequest.delete(this.byRequest.keys().next().value!)
    this.byRequest.set(requestId, counts)
  }

  toJSON(): unknown {
    return { ...this, byRequest: Object.fromEntries(this.byRequest) }
  }
}
