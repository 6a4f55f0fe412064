// Work that goes on after its request was answered: queued, under way, and over when its time has come.
import type { Directive } from '../directive.ts'

/** Where a job is. */
export type JobStatus = 'queued' | 'in_progress' | 'completed' | 'failed' | 'cancelled'

/** What is made. */
export interface VideoPlan {
  kind: 'video'
  prompt: string
  seconds: number
  width: number
  height: number
  remixedFrom: string | undefined
}

/** The pictures of an answer, once they are made. */
export interface ImagePlan {
  kind: 'image'
  data: readonly { url?: string }[]
  usage: unknown
}

/** What a job is made of. */
export interface JobParts {
  id: string
  model: string
  /** Of the request that began it. */
  directive: Directive
  plan: VideoPlan | ImagePlan
}

const defaultQueue = 200
const defaultWork = 800

/** Unix milliseconds, as time passes: whoever sets the clock makes no job older. */
function now(): number {
  return Math.floor(performance.timeOrigin + performance.now())
}

/** One job. Whoever begins it ends it when {@link duration} has passed. */
export class Job {
  readonly id: string
  readonly model: string
  readonly plan: VideoPlan | ImagePlan
  readonly directive: Directive
  /** Milliseconds. */
  readonly createdAt = now()
  /** Milliseconds; when it reached its end, whichever. */
  endedAt: number | undefined
  #end: 'completed' | 'failed' | 'cancelled' | undefined
  #calls = 0

  constructor({ id, model, directive, plan }: JobParts) {
    this.id = id
    this.model = model
    this.directive = directive
    this.plan = plan
  }

  /** Milliseconds from its creation to its end. */
  get duration(): number {
    return this.#queue + this.#work
  }

  get status(): JobStatus {
    return this.#end ?? (now() - this.createdAt < this.#queue ? 'queued' : 'in_progress')
  }

  /** From 0 to 100, which only a completed job reaches. */
  get progress(): number {
    if (this.#end === 'completed') return 100
    const worked = (this.endedAt ?? now()) - this.createdAt - this.#queue
    return Math.min(Math.max(Math.floor((100 * worked) / Math.max(this.#work, 1)), 0), 99)
  }

  /** Why it failed. */
  get error(): { code: string; message: string } | null {
    if (this.#end !== 'failed') return null
    return { code: 'generation_failed', message: 'The simulator was told to fail.', ...this.directive.fail }
  }

  /** Its time has come. Whether it is completed now. */
  finish(): boolean {
    return this.#over(this.directive.fail === undefined ? 'completed' : 'failed') && this.#end === 'completed'
  }

  cancel(): void {
    this.#over('cancelled')
  }

  /** What the next call about it has to obey. */
  next(): Directive {
    return this.directive.later?.[this.#calls++] ?? {}
  }

  get #queue(): number {
    return this.directive.queue_ms ?? defaultQueue
  }

  get #work(): number {
    return this.directive.work_ms ?? defaultWork
  }

  #over(end: 'completed' | 'failed' | 'cancelled'): boolean {
    if (this.#end !== undefined) return false
    this.#end = end
    this.endedAt = now()
    return true
  }
}
