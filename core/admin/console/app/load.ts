// Loading of what a page shows: every wait ends in data or in a reason.
import { useLayoutEffect, useRef, useState } from 'preact/hooks'
import { ApiError, get } from './api.ts'
import type { Page, Query } from './api.ts'

/** Something that is loaded, or is on its way. */
export interface Loaded<T> {
  /** The newest that came; undefined before. It stays while it is loaded again. */
  readonly data: T | undefined
  /** Why the last attempt failed. */
  readonly error: ApiError | undefined
  /** Whether it is on its way. */
  readonly busy: boolean
  /** When `data` came, in Unix milliseconds. */
  readonly at: number | undefined
  /** Loads it again. */
  again(): void
}

/** Any error as one that can be shown. */
export function shownError(error: unknown): ApiError {
  return error instanceof ApiError
    ? error
    : new ApiError(0, 'mistake', `The page made a mistake: ${error instanceof Error ? error.message : typeof error}`)
}

/**
 * Loads something when the component appears and whenever one of `keys` changes, which ends a load that is under way.
 * With `keep`, what was there stays until the new is there; for lists whose filters change.
 */
export function useLoad<T>(
  load: (signal: AbortSignal) => Promise<T>,
  keys: readonly unknown[],
  { keep = false }: { keep?: boolean } = {}
): Loaded<T> {
  const [turn, setTurn] = useState(0)
  const [state, setState] = useState<Omit<Loaded<T>, 'again'>>(nothing)
  // It is asked for at once, and not after the next frame.
  useLayoutEffect(() => {
    const leaving = new AbortController()
    setState((before) => ({ ...before, busy: true }))
    load(leaving.signal).then(
      (data) => {
        if (!leaving.signal.aborted) setState({ data, error: undefined, busy: false, at: Date.now() })
      },
      (error: unknown) => {
        if (!leaving.signal.aborted) setState((before) => ({ ...before, error: shownError(error), busy: false }))
      }
    )
    return () => leaving.abort()
  }, [...keys, turn])
  const before = useRef(keys)
  const again = (): void => setTurn((count) => count + 1)
  if (!keep && before.current.some((key, place) => key !== keys[place])) {
    before.current = keys
    setState(nothing)
    return { ...nothing, again }
  }
  before.current = keys
  return { ...state, again }
}

const nothing = { data: undefined, error: undefined, busy: true, at: undefined }

/** A list of the API, page by page. */
export interface LoadedList<T> extends Omit<Loaded<readonly T[]>, 'data'> {
  readonly rows: readonly T[]
  /** Loads the next page; undefined when there is none, or one is on its way. */
  readonly more: (() => void) | undefined
}

/** A page that has rows, or the last one: a search that takes long finds none in some of its steps. */
async function nextPage<T>(path: string, query: Query, signal?: AbortSignal): Promise<Page<T>> {
  let page = await get<Page<T>>(path, query, signal)
  while (page.data.length === 0 && page.next !== null)
    page = await get<Page<T>>(path, { ...query, cursor: page.next }, signal)
  return page
}

/** The most rows that a page keeps. Who wants to see others narrows the filter. */
const mostRows = 20_000

/** Loads a list of the API from its first page on, anew whenever the path or the query changes. */
export function useList<T>(path: string, query: Query = {}): LoadedList<T> {
  const asked = JSON.stringify([path, query])
  const first = useLoad((signal) => nextPage<T>(path, query, signal), [asked], { keep: true })
  const [rest, setRest] = useState<{ of: unknown; rows: readonly T[]; next: string | null; error?: ApiError }>()
  const [busy, setBusy] = useState(false)
  const current = useRef<unknown>(undefined)
  current.current = first.data
  const own = rest && rest.of === first.data ? rest : undefined
  const rows = own ? own.rows : (first.data?.data ?? [])
  const next = own ? own.next : (first.data?.next ?? null)
  const more = async (): Promise<void> => {
    setBusy(true)
    const of = first.data
    try {
      const page = await nextPage<T>(path, { ...query, cursor: next ?? undefined })
      if (current.current === of) setRest({ of, rows: [...rows, ...page.data], next: page.next })
    } catch (error) {
      if (current.current === of) setRest({ of, rows, next, error: shownError(error) })
    } finally {
      setBusy(false)
    }
  }
  return {
    rows,
    error: own?.error ?? first.error,
    busy: busy || first.busy,
    at: first.at,
    again: first.again,
    more: next === null || busy || rows.length >= mostRows ? undefined : () => void more()
  }
}
