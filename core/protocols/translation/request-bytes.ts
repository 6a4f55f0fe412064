// Translates requests and answers as bytes, with nothing but plain data as input and output, so that any thread can do
// it.
import type { AnswerHead, RequestHead, Target } from '../canonical/codec.ts'
import { parseAnswer, parseJson, writeJson } from '../canonical/json.ts'
import { Offer } from '../canonical/offer.ts'
import type { OfferedTools } from '../canonical/offer.ts'
import type { Keepsake } from '../canonical/proofs.ts'
import { codecs, upstreamCodecs } from './codecs.ts'
import type { CodecName, UpstreamCodecName } from './codecs.ts'
import { asObject } from '../object.ts'
import type { JsonObject } from '../object.ts'
import { Asked, offerRules, translateAnswer } from './translation.ts'
import type { AnswerPlan, AnswerTranslation } from './translation.ts'

/** How to translate a request. Plain data. */
export interface RequestTask {
  readonly client: CodecName
  readonly upstream: UpstreamCodecName
  readonly head: RequestHead
  readonly target: Target
}

/** How to translate the answer to a request. Plain data. */
export interface AnswerTask {
  readonly client: CodecName
  readonly upstream: UpstreamCodecName
  readonly target: Target
  readonly offered: OfferedTools
  readonly hidesThoughts: boolean
}

/** A request for an upstream, and how to translate its answer. Plain data. */
export interface TranslatedRequest extends AnswerTask {
  readonly body: Uint8Array
  /** Members of the client's request that were left out. */
  readonly dropped: readonly string[]
  /** What the answer repeats of the client's request. */
  readonly repeated: JsonObject
}

/** A whole answer for the client. Plain data. */
export interface TranslatedAnswer extends AnswerTranslation {
  readonly body: Uint8Array
}

/**
 * The most that an answer repeats of a request, in characters of JSON. Of larger requests it repeats only short
 * members.
 */
const mostRepeated = 1024 * 1024

/**
 * Translates a request for an upstream. `find` is called at most once, for what was kept under ids of calls. If it
 * returns undefined, these ids are returned: look them up, and try again.
 * @throws Untranslatable when the request is not of the client's protocol, or cannot be expressed in the upstream's
 */
export function translateRequest(
  bytes: Buffer,
  task: RequestTask,
  find: (calls: readonly string[]) => ReadonlyMap<string, Keepsake> | undefined
): TranslatedRequest | readonly string[] {
  const [client, upstream] = [codecs[task.client], upstreamCodecs[task.upstream]]
  const request = parseJson(bytes.toString('utf8')) as JsonObject
  const asked = new Asked(client, request, task.head)
  const missing = asked.missing(upstream)
  const found = missing.length === 0 ? undefined : find(missing)
  if (missing.length > 0 && !found) return missing
  const { body, dropped, answer } = asked.for(upstream, task.target, found)
  return {
    body: Buffer.from(writeJson(body)),
    dropped,
    client: task.client,
    upstream: task.upstream,
    target: task.target,
    offered: answer.offer.made,
    hidesThoughts: answer.hidesThoughts,
    repeated: repeatedOf(request, [...(client.repeats ?? []), 'stream_options'], bytes.length > mostRepeated)
  }
}

/** Makes an answer plan from plain data. */
export function planOf({ client, upstream, target, offered, hidesThoughts }: AnswerTask): AnswerPlan {
  return {
    client: codecs[client],
    upstream: upstreamCodecs[upstream],
    offer: new Offer(offerRules(upstreamCodecs[upstream], target), offered),
    hidesThoughts
  }
}

/**
 * Translates a whole answer of the upstream.
 * @throws Untranslatable when it is not an answer
 */
export function translateWhole(bytes: Buffer, task: AnswerTask, head: AnswerHead): TranslatedAnswer {
  const { body, ...rest } = translateAnswer(planOf(task), parseAnswer(bytes.toString('utf8')), head)
  return { body: Buffer.from(JSON.stringify(body)), ...rest }
}

/**
 * For a request that is passed on in its own protocol: the member that holds the gateway's own signatures, as JSON text
 * without them. Undefined when it has none.
 */
export function unsealRequest(bytes: Buffer, protocol: CodecName): { key: string; json: string } | undefined {
  const { withoutSealed } = codecs[protocol]
  const changed = withoutSealed?.(parseJson(bytes.toString('utf8')) as JsonObject)
  return changed && { key: changed.key, json: JSON.stringify(changed.value) }
}

function repeatedOf(request: JsonObject, members: readonly string[], large: boolean): JsonObject {
  const own = members.filter((name) => request[name] !== undefined)
  const fits = !large || JSON.stringify(own.map((name) => request[name])).length <= mostRepeated
  return Object.fromEntries(own.filter((name) => fits || isShort(request[name])).map((name) => [name, request[name]]))
}

function isShort(value: unknown): boolean {
  return typeof value === 'string' ? value.length < 1024 : !Array.isArray(value) && asObject(value) === undefined
}
