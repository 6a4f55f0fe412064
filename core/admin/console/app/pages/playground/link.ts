// The way to the playground from what other pages show.
import { linkTo } from '../../router.ts'

/** A part of a request record, by which it is tried again. */
export interface Tried {
  readonly key: string | null
  readonly model: string | null
  readonly requested_model: string | null
  readonly client_protocol: string
  readonly endpoint: string
}

/** The address at which a request like a recorded one is tried; its messages are not in it. */
export function tryLink({
  key,
  model,
  requested_model: requested,
  client_protocol: protocol,
  endpoint
}: Tried): string {
  return linkTo('playground', [], {
    key: key ?? undefined,
    model: requested ?? model ?? undefined,
    protocol,
    view: endpoint.startsWith('realtime') ? 'realtime' : undefined
  })
}
