// Troubles: what is wrong with the gateway now, since when, and what to do about it.
import { listOf, nullable, object, oneOf, said, text, time } from '../api/shape.ts'

/** How bad a trouble is: requests fail; they will, or somebody has to act; good to know. */
export const severities = ['critical', 'warning', 'notice'] as const

/** What is wrong now. */
export interface Trouble {
  /** What tells it from others, and stays the same while it lasts. */
  readonly id: string
  readonly kind: TroubleKind
  readonly severity: (typeof severities)[number]
  /** Unix milliseconds; undefined when nobody knows. */
  readonly since?: number | undefined
  /** One sentence each, without secrets. */
  readonly text: string
  readonly remedy: string
  /** Where it is mended: a page of the console, as its path below `/console/`. */
  readonly link: string
  /** Whose it is; null when it is the gateway's. */
  readonly tenant: string | null
}

/** All kinds. */
export const troubleKinds = [
  'model_out',
  'channel_out',
  'channel_switched',
  'budget',
  'reload',
  'worker',
  'store',
  'disk',
  'alerts',
  'credential',
  'certificate',
  'backup',
  'deprecation',
  'file'
] as const

/** The kind of a trouble. */
export type TroubleKind = (typeof troubleKinds)[number]

/** A trouble as it is shown. */
export const troubleShape = object({
  id: text,
  kind: oneOf(...troubleKinds),
  severity: oneOf(...severities),
  since: nullable(time),
  text: said(text, 'What is wrong.'),
  remedy: said(text, 'What to do about it.'),
  link: said(text, 'The page of the console where it is mended, below /console/.'),
  tenant: nullable(text)
})

export const troublesShape = object({ data: listOf(troubleShape), next: said(nullable(text), 'Always null.') })

/** Shows a trouble. */
export function showTrouble({ since, ...trouble }: Trouble): object {
  return { ...trouble, since: since === undefined ? null : new Date(since).toISOString() }
}
