// Jobs: work that goes on after its request was answered. A job is queued, then in progress, and ends after a set time.
import type { Directive } from '../directive.ts'

/** The state of a job. */
export type JobStatus = 'queued' | 'in_progress' | 'completed' | 'failed' | 'cancelled'

/** What a video job makes. */
export interface VideoPlan {
  kind: 'video'
  prompt: string
  seconds: number
  width: number
  height: number
  remixedFrom: string | undefined
}

/** What an image job makes. The pictures are shown once it is completed. */
export interface ImagePlan {
  kind: 'image'
  data: readonly { url?: string }[]
  usage: unknown
}

/** What a job is made from. */
export interface JobParts {
  id: string
  model: string
  /** The directive of the request that began it. */
  directive: Directive
  plan: VideoPlan | ImagePlan
}

const defaultQueue = 200
const defaultWork = 800

/** Unix milliseconds on a steady clock, so that setting the system's clock does not change a job's age. */
function now(): number {
  return Math.floor(performance.timeOrigin + performance.now())
}

/** One job. Its maker ends it after {@link duration}. */
export class Job {
  readonly id: string
  readonly model: string
  readonly plan: VideoPlan | ImagePlan
  readonly directive: Directive
  /** Unix milliseconds. */
  readonly createdAt = now()
  /** When it ended, in Unix milliseconds. */
  endedAt: number | undefined
  #end: 'completed' | 'failed' | 'cancelled' | undefined
  #calls = 0

  constructor({ id, model, directive, plan }: JobParts) {
    this.id = id
    this.model = model
    this.directive = directive
    this.plan = plan
  }

  /** The milliseconds from its creation to its end. */
  get duration(): number {
    return this.#queue + this.#work
  }

  get status(): JobStatus {
    return this.#end ?? (now() - this.createdAt < this.#queue ? 'queued' : 'in_progress')
  }

  /** In percent. Only a completed job has 100. */
  get progress(): number {
    if (this.#end === 'completed') return 100
    const worked = (this.endedAt ?? now()) - this.createdAt - this.#queue
    return Math.min(Math.max(Math.floor((100 * worked) / Math.max(this.#work, 1)), 0), 99)
  }

  /** Why it failed; null when it did not. */
  get error(): { code: string; message: string } | null {
    if (this.#end !== 'failed') return null
    return { code: 'generation_failed', message: 'The simulator was told to fail.', ...this.directive.fail }
  }

  /** Ends the job as planned. Returns whether this completed it. */
  finish(): boolean {
    return this.#over(this.directive.fail === undefined ? 'completed' : 'failed') && this.#end === 'completed'
  }

  cancel(): void {
    this.#over('cancelled')
  }

  /** The directive for the next call about this job. */
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
