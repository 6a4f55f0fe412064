// Asks the admin API. Whatever a page shows or changes goes through here; the same requests can be made with curl.
import { forgetEarly, takeEarly } from './early.ts'
import { who } from './session.ts'
import type { Who } from './session.ts'

/** Milliseconds after which an answer is no longer waited for. */
const patience = 30_000

/** Why the API did not do something. The message is for people. */
export class ApiError extends Error {
  override readonly name = 'ApiError'
  /** The HTTP status; 0 when there was no answer. */
  readonly status: number
  /** `key_not_found`, for instance; `unreachable` when there was no answer. */
  readonly code: string
  /** The parameter or member that it is about, as a path with dots. */
  readonly param: string | undefined

  constructor(status: number, code: string, message: string, param?: string) {
    super(message)
    this.status = status
    this.code = code
    this.param = param
  }
}

/** Values of a query; those that are undefined or empty are left out. */
export type Query = Readonly<Record<string, string | number | boolean | undefined>>

/** A page of a list. */
export interface Page<T> {
  readonly data: readonly T[]
  /** The cursor of the next page. */
  readonly next: string | null
}

interface Question {
  readonly query?: Query | undefined
  readonly body?: unknown
  readonly signal?: AbortSignal | undefined
  /** Milliseconds; default 30,000. */
  readonly patience?: number
}

/** A path with its query: `/admin/v1/keys?tenant=acme`. */
export function pathWith(path: string, query: Query = {}): string {
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== '')
  const search = new URLSearchParams(given.map(([name, value]) => [name, String(value)])).toString()
  return search === '' ? path : `${path}?${search}`
}

/**
 * Gets JSON. The path begins with `/admin/`; segments that are data go through `encodeURIComponent`.
 * @throws ApiError
 */
export function get<T>(path: string, query?: Query, signal?: AbortSignal): Promise<T> {
  return ask('GET', path, { query, signal })
}

/**
 * Changes something, or asks with a body.
 * @throws ApiError
 */
export function send<T>(
  method: 'POST' | 'PATCH' | 'DELETE' | 'PUT',
  path: string,
  body?: unknown,
  more: Omit<Question, 'body'> = {}
): Promise<T> {
  return ask(method, path, { ...more, body })
}

async function ask<T>(method: string, path: string, question: Question): Promise<T> {
  const reply = await open(method, path, question)
  try {
    return (await reply.json()) as T
  } catch (error) {
    if (question.signal?.aborted) throw error
    throw new ApiError(0, 'unreachable', 'The answer of the gateway broke off. Try again.')
  }
}

/**
 * Sends a request and gives the answer unread, for streams and downloads.
 * @throws ApiError for any answer that is no success; DOMException `AbortError` when `signal` says so
 */
export async function open(method: string, path: string, question: Question): Promise<Response> {
  const { query, body, signal } = question
  const csrf = method === 'GET' ? null : (who.peek()?.csrf ?? null)
  const timeout = AbortSignal.timeout(question.patience ?? patience)
  let reply: Response
  try {
    const address = pathWith(path, query)
    if (method !== 'GET') forgetEarly()
    reply = await (takeEarly(address) ??
      fetch(address, {
        method,
        headers: {
          accept: 'application/json',
          ...(method !== 'GET' && { 'content-type': 'application/json' }),
          ...(csrf !== null && { 'x-sluice-csrf': csrf })
        },
        // A change without anything to say is an empty object: the API takes JSON alone from browsers.
        ...(method !== 'GET' && method !== 'DELETE' && { body: JSON.stringify(body ?? {}) }),
        signal: signal ? AbortSignal.any([signal, timeout]) : timeout,
        redirect: 'error'
      }))
  } catch (error) {
    if (signal?.aborted) throw error
    const seconds = Math.round((question.patience ?? patience) / 1000)
    const why = timeout.aborted ? `The gateway did not answer within ${seconds} s.` : 'The gateway cannot be reached.'
    throw new ApiError(0, 'unreachable', `${why} Try again when it runs.`)
  }
  if (reply.ok) return reply
  throw await refusalOf(reply)
}

async function refusalOf(reply: Response): Promise<ApiError> {
  // Whoever was signed out is asked to sign in, and keeps what they have typed.
  if (reply.status === 401) who.value = null
  try {
    const { error } = (await reply.json()) as { error: { code: string; message: string; param?: string } }
    return new ApiError(reply.status, error.code, error.message, error.param)
  } catch {
    return new ApiError(reply.status, 'unreadable', `Something answered ${reply.status}, but not the admin API.`)
  }
}

/**
 * Asks who is there, and remembers it in `who`.
 * @throws ApiError when the API cannot be asked; that nobody is signed in is no error
 */
export async function findWho(): Promise<void> {
  try {
    who.value = await get<Who>('/admin/v1/session')
  } catch (error) {
    if (!(error instanceof ApiError) || error.status !== 401) throw error
  }
}
