// What the simulator knows about the traffic that it saw, to compare with what a gateway has recorded.
import type { Upload } from './body.ts'
import type { Ending } from './ending.ts'

/** How many answers are remembered by request id. */
const remembered = 10_000
const rememberedUploads = 100

/** A file that arrived completely. */
export interface Received extends Omit<Upload, 'head'> {
  /** The `x-request-id` of the request. */
  request: string | undefined
}

/** The units of an answer. What is zero may be left out. */
export interface Counts {
  /** The tokens of the request, those read from a cache or written to one included. */
  prompt?: number
  cached?: number
  written?: number
  /** The tokens of the answer, reasoning included. */
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
  /** Requests whose body arrived completely. */
  requests = 0
  refused = 0
  completed = 0
  cut = 0
  aborted = 0
  /** How many answers are being written and how many sockets are open now. */
  active = 0
  connections = 0
  /** The units of all completed answers. */
  readonly counted: Counts = {}
  /** The units of the newest 10,000 completed answers, by `x-request-id`. */
  readonly byRequest = new Map<string, Counts>()

  /** The newest 100 files. */
  readonly uploads: Received[] = []

  /** Notes files that came with a request. */
  received(files: readonly Upload[], request: string | undefined): void {
    for (const { head: _, ...file } of files) this.uploads.push({ request, ...file })
    this.uploads.splice(0, this.uploads.length - rememberedUploads)
  }

  /** Notes the end of an answer. */
  ended(ending: Ending, counts: Counts | undefined, requestId: string | undefined): void {
    this.active--
    this[ending]++
    if (ending === 'completed' && counts) this.count(counts, requestId)
  }

  /** Adds the units of a completed answer or job. */
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
