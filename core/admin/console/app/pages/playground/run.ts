// Runs a request by the playground's API, and keeps how far its answer has come.
import { signal } from '@preact/signals'
import type { Signal } from '@preact/signals'
import { get } from '../../api.ts'
import type { Page } from '../../api.ts'
import { who } from '../../session.ts'
import { noAnswer } from './conversation.ts'
import type { Answer, Dialect } from './conversation.ts'
import { secret } from './draft.ts'
import type { Setup } from './draft.ts'
import { readEvents } from './event-stream.ts'
import { parsed, textAt } from './json.ts'
import type { Request } from './request.ts'

/** What the request log has of a run. */
export interface RunRecord {
  readonly request_id: string
  readonly status: number
  readonly cost_nano: string
  readonly usage: Readonly<Record<string, number>> | null
  readonly first_byte_ms: number | null
  readonly duration_ms: number
  readonly error_code: string | null
}

/** How far a run has come. Times are milliseconds since it was sent. */
export interface Progress {
  readonly model: string
  readonly dialect: Dialect
  readonly state: 'running' | 'done' | 'stopped' | 'failed'
  readonly answer: Answer
  /** Why it failed; the message is for people. */
  readonly failure: { readonly message: string; readonly code: string } | undefined
  /** Of the record; undefined before the head of the answer. */
  readonly id: string | undefined
  readonly firstMs: number | undefined
  readonly totalMs: number | undefined
  readonly record: RunRecord | undefined
}

/** A request that runs or ran. */
export interface Run {
  /** Of the runs of this page, counted. */
  readonly number: number
  readonly progress: Signal<Progress>
  stop(): void
}

/** The path of the playground for a key. */
export function pathFor(key: string | undefined, path: string): string {
  return `/admin/v1/playground/${key === undefined ? 'secret' : `keys/${encodeURIComponent(key)}`}${path}`
}

/** Sends something to the playground. Rejects as `fetch` does. */
export function reach(
  key: string | undefined,
  path: string,
  { method = 'POST', body, signal: stopped }: { method?: string; body?: BodyInit; signal?: AbortSignal }
): Promise<Response> {
  const csrf = who.peek()?.csrf ?? null
  return fetch(pathFor(key, path), {
    method,
    headers: {
      ...(typeof body === 'string' && { 'content-type': 'application/json' }),
      ...(csrf !== null && { 'x-sluice-csrf': csrf }),
      ...(key === undefined && { 'x-sluice-secret': secret.peek() })
    },
    ...(body !== undefined && { body }),
    ...(stopped && { signal: stopped }),
    redirect: 'error'
  })
}

/** Why a request was refused, whoever refused it. */
export async function refusalIn(reply: Response): Promise<{ message: string; code: string }> {
  // The gateway's own requests have other ids: this one was refused by the admin API.
  if (reply.status === 401 && reply.headers.get('x-request-id')?.startsWith('adm_')) who.value = null
  const json = parsed(await reply.text())
  const error = Array.isArray(json) ? (json[0] as unknown) : json
  const code = textAt(error, 'error', 'code') || textAt(error, 'error', 'type') || textAt(error, 'error', 'status')
  return {
    message: textAt(error, 'error', 'message') || `The answer has the status ${reply.status}.`,
    code: code || `${reply.status}`
  }
}

let runs = 0

/** Begins a run. */
export function begin({ key, dialect, stream }: Setup, request: Request, model: string): Run {
  const stopping = new AbortController()
  const answer = noAnswer()
  const progress = signal<Progress>({
    model,
    dialect,
    state: 'running',
    answer: { ...answer },
    failure: undefined,
    id: undefined,
    firstMs: undefined,
    totalMs: undefined,
    record: undefined
  })
  const startedAt = performance.now()
  const since = (): number => performance.now() - startedAt
  const tell = (changes: Partial<Progress>): void => void (progress.value = { ...progress.peek(), ...changes })
  // An answer of many events a second is drawn once a frame.
  let due = false
  const show = (): void => {
    if (progress.peek().firstMs === undefined) tell({ firstMs: since() })
    if (due) return
    due = true
    setTimeout(() => {
      due = false
      tell({ answer: { ...answer } })
    }, 30)
  }
  const work = async (): Promise<void> => {
    const reply = await reach(key, request.path, { body: JSON.stringify(request.body), signal: stopping.signal })
    tell({ id: reply.headers.get('x-request-id') ?? undefined })
    if (!reply.ok) throw new Refused(await refusalIn(reply))
    if (stream && reply.headers.get('content-type')?.startsWith('text/event-stream') && reply.body)
      await readEvents(reply.body, (json) => {
        dialect.event(answer, json)
        show()
      })
    else {
      const json = (await reply.json()) as unknown
      tell({ firstMs: since() })
      dialect.whole(answer, json)
    }
    if (answer.error !== undefined) throw new Refused({ message: answer.error, code: 'broke_off' })
  }
  const end = async (state: Progress['state'], failure?: Progress['failure']): Promise<void> => {
    tell({ state, failure, totalMs: since(), answer: { ...answer } })
    const { id } = progress.peek()
    if (id !== undefined && !id.startsWith('adm_')) tell({ record: await recordOf(id) })
  }
  work()
    .then(
      () => end('done'),
      (error: unknown) => {
        if (stopping.signal.aborted) return end('stopped')
        const failure = error instanceof Refused ? error.failure : { message: wordsOf(error), code: 'unreachable' }
        return end('failed', failure)
      }
    )
    .catch(() => {})
  return { number: ++runs, progress, stop: () => stopping.abort() }
}

class Refused extends Error {
  override readonly name = 'Refused'
  readonly failure: { message: string; code: string }

  constructor(failure: { message: string; code: string }) {
    super(failure.message)
    this.failure = failure
  }
}

function wordsOf(error: unknown): string {
  if (error instanceof TypeError) return 'The answer broke off, or the gateway cannot be reached.'
  return error instanceof Error ? error.message : 'The page made a mistake.'
}

/** The record of a request, which is there soon after its end; undefined when it did not come within five seconds. */
async function recordOf(id: string): Promise<RunRecord | undefined> {
  for (let wait = 50; wait <= 1600; wait *= 2) {
    await new Promise((resolve) => setTimeout(resolve, wait))
    const { data } = await get<Page<RunRecord>>('/admin/v1/requests', { request_id: id })
    if (data[0]) return data[0]
  }
  return undefined
}
