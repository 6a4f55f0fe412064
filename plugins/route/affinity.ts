// Which conversation a request says it belongs to, and where its requests go: upstreams keep prompts by account.
import { hash } from 'node:crypto'
import type { Exchange } from '../../core/contract/contract.ts'
import { caller } from '../../core/contract/slots.ts'

/** The header by which a client names the conversation, in whatever protocol. */
const header = 'x-sluice-affinity'
/** The most bytes of a name, and of what it stands in. */
const longest = 4096

/**
 * The conversation, as a text that is no other tenant's; undefined where the request names none. OpenAI's clients say
 * `prompt_cache_key` (https://platform.openai.com/docs/guides/prompt-caching), Anthropic's `metadata.user_id`, in which
 * agents have the session.
 */
export function conversationOf(exchange: Exchange): string | undefined {
  const { headers } = exchange.request
  const said = headers[header]
  const name = typeof said === 'string' && said !== '' ? said : nameIn(exchange.body)
  return name === undefined ? undefined : JSON.stringify([exchange.find(caller)?.tenant, name])
}

function nameIn({ fields, lens, form }: Exchange['body']): string | undefined {
  if (fields.has('prompt_cache_key') && fields.size('prompt_cache_key') <= longest) {
    const key = fields.string('prompt_cache_key')
    if (key) return key
  }
  if (form || lens.type('metadata') !== 'object' || lens.size('metadata') > longest) return undefined
  const { user_id: user } = lens.json('metadata') as { user_id?: unknown }
  return typeof user === 'string' && user !== '' ? user : undefined
}

/** One of those that a conversation may go to. */
export interface Place {
  /** The same after a reload. */
  readonly name: string
  readonly weight: number
  /** The share that is left of its limits, from 0 to 1. */
  readonly left: number
}

/** The share that is left from which on it moves nobody away. */
const enough = 0.1
/** The least share that counts, so that what is nearly used up is still chosen now and then, and told of anew. */
export const leastShare = 0.001

/**
 * Chooses the place of a conversation, among the same ones each time the same: where one is gone, only its own
 * conversations go elsewhere (weighted rendezvous hashing). Each place has as many conversations as its weight says;
 * the fewer, the less is left of it, once nine tenths are used up. Returns its index. The list must not be empty.
 */
export function placeOf(conversation: string, places: readonly Place[]): number {
  const even = places.every(({ weight }) => weight === 0)
  let best = 0
  let least = Infinity
  places.forEach(({ name, weight, left }, index) => {
    const part = (even ? 1 : weight) * Math.min(1, Math.max(leastShare, left) / enough)
    // An exponential variable of this rate is the least of all with the probability of its part.
    const distance = -Math.log(chanceOf(conversation, name)) / part
    if (distance < least) [best, least] = [index, distance]
  })
  return best
}

/** A number above 0 and below 1 that is the same for the same texts. */
function chanceOf(conversation: string, name: string): number {
  const digits = hash('sha256', JSON.stringify([conversation, name])).slice(0, 12)
  return (parseInt(digits, 16) + 0.5) / 2 ** 48
}
