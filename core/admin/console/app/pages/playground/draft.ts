// What a reader prepares. What can be sent to somebody is in the address; prompts are kept by the tab alone, and the
// secret of a key nowhere.
import { signal } from '@preact/signals'
import { address } from '../../router.ts'
import type { Dialect, Message } from './conversation.ts'
import { dialectOf } from './dialects/dialects.ts'

/** The views of the page. */
export const views = ['chat', 'realtime', 'media'] as const

/** What is in the address. */
export interface Setup {
  readonly view: (typeof views)[number]
  /** The name of a key; empty for none yet, undefined when the secret of one is typed in. */
  readonly key: string | undefined
  readonly model: string
  /** The model beside it; empty for none. */
  readonly other: string
  readonly dialect: Dialect
  readonly stream: boolean
  readonly max: string
  readonly temperature: string
  readonly topP: string
}

/** What the address says. */
export function setup(): Setup {
  const { query } = address.value
  const text = (name: string): string => query.get(name) ?? ''
  return {
    view: views.find((one) => one === text('view')) ?? 'chat',
    key: query.has('typed') ? undefined : text('key'),
    model: text('model'),
    other: text('other'),
    dialect: dialectOf(query.get('protocol')),
    stream: text('stream') !== 'no',
    max: text('max'),
    temperature: text('temperature'),
    topP: text('top_p')
  }
}

/** What only this tab knows. */
export interface Draft {
  readonly system: string
  readonly messages: readonly Message[]
  /** JSON as it was typed: a list of tools, and members that the body has besides. */
  readonly tools: string
  readonly more: string
  /** The whole body as it was typed, in the place of all that. */
  readonly body?: string
}

const place = 'sluice.playground'
const blank: Draft = {
  system: '',
  messages: [{ role: 'user', parts: [{ kind: 'text', text: '' }] }],
  tools: '',
  more: ''
}

/** The draft. */
export const draft = signal<Draft>(read())

/** The secret of a key that was typed in. */
export const secret = signal('')

/** Changes parts of the draft. */
export function revise(changes: Partial<Draft>): void {
  draft.value = { ...draft.peek(), ...changes }
  try {
    sessionStorage.setItem(place, JSON.stringify(draft.peek()))
  } catch {
    // What is too large, a film for instance, is there until the tab is closed or loaded anew.
  }
}

/** Begins with an empty conversation. */
export function clear(): void {
  const { body: _body, ...rest } = { ...draft.peek(), messages: blank.messages }
  draft.value = rest
  revise({})
}

/** Takes a body that was typed back, so that the form counts again. */
export function forgetBody(): void {
  const { body: _body, ...rest } = draft.peek()
  draft.value = rest
  revise({})
}

function read(): Draft {
  try {
    const kept = JSON.parse(sessionStorage.getItem(place) ?? 'null') as Draft | null
    return kept && Array.isArray(kept.messages) ? { ...blank, ...kept } : blank
  } catch {
    return blank
  }
}
