// Members that the gateway adds to requests on its own account, and channels whose upstreams do not take them.
import type { Channel } from '../catalogue/catalogue.ts'
import type { GatewayError } from '../errors.ts'

/** Members that upstreams were found to refuse, by channel. A reload makes new channels, which starts over. */
const refused = new WeakMap<Channel, Set<string>>()

/** Whether a channel accepts a member that the client did not send. */
export function takes(channel: Channel, member: string): boolean {
  return (channel.streamOptions || member !== 'stream_options') && refused.get(channel)?.has(member) !== true
}

/**
 * Notes that an upstream accepted a request without the member after it had refused it with the member. From now on the
 * member is not sent to the channel.
 */
export function rememberRefusal(channel: Channel, member: string): void {
  const members = refused.get(channel)
  if (members) members.add(member)
  else refused.set(channel, new Set([member]))
}

/** Whether an upstream refused a request because of this member: with status 400 or 422, and naming the member. */
export function isRefusalOf(member: string, { code, message, details: { status, param } }: GatewayError): boolean {
  return (
    code === 'upstream_rejected' && (status === 400 || status === 422) && (param === member || message.includes(member))
  )
}
