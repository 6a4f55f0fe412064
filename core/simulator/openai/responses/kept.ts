// One response: its object at any moment, and its events. It is kept when the request asks for that.
import type { Directive } from '../../directive.ts'
import type { Fields } from '../../fields.ts'
import type { Counts } from '../../stats.ts'
import { compose, createdOf } from '../../words/composition.ts'
import type { Composition } from '../../words/composition.ts'
import { countsOf } from '../../words/counts.ts'
import { outputOf } from './output.ts'
import type { OutputItem } from './output.ts'
import type { ResponseRequest } from './request.ts'

const defaultQueue = 100
const defaultWork = 400

/** A response in progress or ended. Its maker says when it ends. */
export class KeptResponse {
  readonly id: string
  readonly request: ResponseRequest
  readonly counts: Counts
  readonly #composition: Composition
  readonly #items: readonly OutputItem[]
  readonly #kept: boolean
  readonly #created: number
  /** When it began, by `performance.now()`. */
  readonly #begun = performance.now()
  #end: string | undefined
  #endedAt: number | undefined
  #calls = 0

  /** `id`: undefined when the response is not kept; equal requests then get equal ids. */
  constructor(request: ResponseRequest, id: string | undefined) {
    this.request = request
    const base = id?.replace(/^resp_/, '') ?? request.digest.slice(0, 24)
    this.id = `resp_${base}`
    this.#composition = compose(request)
    this.#items = outputOf(request, this.#composition, base)
    this.counts = countsOf(request, [this.#composition])
    this.#kept = id !== undefined
    this.#created = this.#kept ? seconds() : createdOf(request)
  }

  get status(): string {
    if (this.#end !== undefined) return this.#end
    return this.request.background && performance.now() < this.#begun + this.#queue ? 'queued' : 'in_progress'
  }

  /** The status that it will end with, unless it is cancelled. */
  get ending(): string {
    const { fail, finish } = this.request.directive
    if (fail !== undefined) return 'failed'
    if (finish === 'content_filter') return 'incomplete'
    return finish ?? (this.#composition.cut ? 'incomplete' : 'completed')
  }

  get over(): boolean {
    return this.#end !== undefined
  }

  /** Ends the response as planned. Returns whether it has output to count. */
  finish(): boolean {
    if (this.over) return false
    this.#close(this.ending)
    return this.#end !== 'failed'
  }

  cancel(): void {
    if (!this.over) this.#close('cancelled')
  }

  /** The directive for the next call about this response. */
  next(): Directive {
    return this.request.directive.later?.[this.#calls++] ?? {}
  }

  /** Its output items; none before it has ended. */
  output(): Fields[] {
    return this.over && this.#end !== 'cancelled' ? this.#items.map((item) => item.done()) : []
  }

  /** The response object as it is now. */
  show(): Fields {
    return this.#show(this.status, this.output())
  }

  /** The response object as it will be at the end. */
  showEnd(): Fields {
    return this.#show(
      this.ending,
      this.#items.map((item) => item.done())
    )
  }

  /**
   * When the n-th event may be sent (`performance.now()`). A background response keeps its times even if nobody follows
   * it.
   */
  dueAt(n: number): number {
    const { first_event_ms: wait = 0, gap_ms: gap } = this.request.directive
    const step = gap ?? (this.request.directive.work_ms ?? defaultWork) / Math.max(this.#eventCount - 1, 1)
    // The first two events come at once, as the response is queued. After the last there is nothing to wait for.
    if (n < 2 || n >= this.#eventCount) return this.#begun
    return this.#begun + this.#queue + wait + (n - 2) * step
  }

  /** The milliseconds until its last event. */
  get remaining(): number {
    return this.dueAt(this.#eventCount - 1) - performance.now()
  }

  /** Its events from the first. Those of a cancelled response end early. */
  *events(): Generator<Fields> {
    const { background } = this.request
    let n = 0
    const event = (type: string, more: Fields): Fields => ({ type, sequence_number: n++, ...more })
    const state = (type: string, status: string): Fields => event(type, { response: this.#show(status, []) })
    yield state('response.created', background ? 'queued' : 'in_progress')
    if (background) yield state('response.queued', 'queued')
    yield state('response.in_progress', 'in_progress')
    for (const [index, item] of this.#items.entries()) {
      yield event('response.output_item.added', { output_index: index, item: item.added })
      for (const { type, ...rest } of item.events()) {
        if (this.#end === 'cancelled') return yield event('response.incomplete', { response: this.show() })
        yield event(type as string, { item_id: item.id, output_index: index, ...rest })
      }
      yield event('response.output_item.done', { output_index: index, item: item.done() })
    }
    const { ending } = this
    if (this.request.directive.done !== false)
      yield event(`response.${ending === 'failed' || ending === 'incomplete' ? ending : 'completed'}`, {
        response: this.showEnd()
      })
  }

  get #queue(): number {
    return this.request.directive.queue_ms ?? defaultQueue
  }

  #events: number | undefined
  get #eventCount(): number {
    if (this.#events === undefined) {
      this.#events = 0
      const events = this.events()
      while (!events.next().done) this.#events++
    }
    return this.#events
  }

  #close(end: string): void {
    this.#end = end
    this.#endedAt = seconds()
  }

  #show(status: string, output: readonly Fields[]): Fields {
    const { body, model, background, directive } = this.request
    const given = (name: string, usual: unknown): unknown => body[name] ?? usual
    const ended = status !== 'queued' && status !== 'in_progress'
    const failed = status === 'failed'
    const counted = ended && !failed && status !== 'cancelled' ? usageOf(this.counts) : null
    const usage = directive.usage === undefined || counted === null ? counted : directive.usage
    const { effort = null, summary = null } = given('reasoning', {}) as Fields
    return {
      id: this.id,
      object: 'response',
      created_at: this.#created,
      status,
      background,
      completed_at: status === 'completed' ? (this.#endedAt ?? (this.#kept ? seconds() : this.#created)) : null,
      error: failed ? { code: 'server_error', message: 'The simulator was told to fail.', ...directive.fail } : null,
      incomplete_details:
        status === 'incomplete'
          ? { reason: directive.finish === 'content_filter' ? 'content_filter' : 'max_output_tokens' }
          : null,
      instructions: given('instructions', null),
      max_output_tokens: given('max_output_tokens', null),
      max_tool_calls: given('max_tool_calls', null),
      model,
      output,
      parallel_tool_calls: given('parallel_tool_calls', true),
      previous_response_id: given('previous_response_id', null),
      prompt_cache_key: given('prompt_cache_key', null),
      reasoning: { effort, summary },
      safety_identifier: given('safety_identifier', null),
      service_tier: given('service_tier', 'default') === 'auto' ? 'default' : given('service_tier', 'default'),
      store: this.request.store,
      temperature: given('temperature', 1),
      text: { format: { type: 'text' }, ...(given('text', {}) as Fields) },
      tool_choice: given('tool_choice', 'auto'),
      tools: given('tools', []),
      top_logprobs: given('top_logprobs', 0),
      top_p: given('top_p', 1),
      truncation: given('truncation', 'disabled'),
      usage,
      access_programs: null,
      user: given('user', null),
      metadata: given('metadata', {})
    }
  }
}

const seconds = (): number => Math.floor(Date.now() / 1000)

/** The member `usage` of a response. */
export function usageOf({ prompt = 0, cached = 0, written = 0, completion = 0, reasoning = 0 }: Counts): Fields {
  return {
    input_tokens: prompt,
    input_tokens_details: { cached_tokens: cached, cache_write_tokens: written },
    output_tokens: completion,
    output_tokens_details: { reasoning_tokens: reasoning },
    total_tokens: prompt + completion
  }
}
