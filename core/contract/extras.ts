// Members that the gateway adds to requests on its own account, and channels whose upstreams do not take them.
import type { Channel } from '../catalogue/catalogue.ts'
import type { GatewayError } from '../errors.ts'

/** What upstreams were found to refuse; forgotten with the generation of the channel. */
const refused = new WeakMap<Channel, Set<string>>()

/** Whether a channel takes a member that its client did not send. */
export function takes(channel: Channel, member: string): boolean {
  return (channel.streamOptions || member !== 'stream_options') && refused.get(channel)?.has(member) !== true
}

/** An upstream answered without the member what it had refused with it: requests are sent without it from now on. */
export function rememberRefusal(channel: Channel, member: string): void {
  const members = refused.get(channel)
  if (members) members.add(member)
  else refused.set(channel, new Set([member]))
}

/** Whether an upstream refused a request for this member: with 400 or 422, naming it. */
export function isRefusalOf(member: string, { code, message, details: { status, param } }: GatewayError): boolean {
  return (
    code === 'upstream_rejected' && (status === 400 || status === 422) && (param === member || message.includes(member))
  )
}
