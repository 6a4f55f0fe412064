// What an endpoint is: everything that differs between operations, so that the engine need not know any by name.
import type { BodyEdit } from '../bodies/body.ts'
import type { Channel, ChannelFamily } from '../catalogue/catalogue.ts'
import type { EndpointName } from '../catalogue/endpoints.ts'
import type { HostedTools } from '../protocols/counting/hosted-tools.ts'
import type { ProtocolName, StreamFraming } from '../protocols/index.ts'
import type { Counter } from '../money/classes.ts'
import type { Slot } from './slots.ts'

/**
 * Where a request has a value: in a top-level member of its JSON body, a field of its form, or a parameter of its path
 * or query.
 */
export interface Place {
  in: 'body' | 'path' | 'query'
  name: string
  /** For a flag: the text that means yes; by default the literal `true`. */
  is?: string
}

/**
 * The kind of a request body. `json`: one JSON object. `form`: a form with files (RFC 7578). `either`: one of these
 * two, according to the media type. `none`: no body; one that is sent is not read. `socket`: the request opens a
 * WebSocket.
 */
export type BodyKind = 'json' | 'form' | 'either' | 'none' | 'socket'

/**
 * The kind of an answer. `json`: one JSON value, inspected as a whole while it is small. `events`: server-sent events.
 * `bytes`: anything else, passed on as it comes. `frames`: the messages of a WebSocket.
 */
export type AnswerKind = 'json' | 'events' | 'bytes' | 'frames'

/** The parts of a request that its path at the upstream depends on. */
export interface TargetRequest {
  /** The upstream's own name for the model. */
  readonly model: string
  readonly streaming: boolean
  /** The parameters of the client's path, decoded. */
  readonly parameters: Readonly<Record<string, string>>
  /** The client's query, without the question mark. */
  readonly query: string
  /** Gives access to slots, in which the operation has noted facts about the request. */
  readonly exchange: { find<T>(slot: Slot<T>): T | undefined }
}

/** How an operation is asked of an upstream. One object for all requests. */
export interface UpstreamForm {
  /** What a channel must say in `dialect` for this form; absent: nothing. */
  readonly dialect?: string
  /** The media type of the upstream's streams, where it is not that of server-sent events. */
  readonly accepts?: string
  /** The protocol of the request to the upstream. When it is not the operation's own, the request is translated. */
  readonly protocol: ProtocolName
  /** The endpoint that a channel must list in `endpoints` for this form; by default the operation's own. */
  readonly endpoint?: EndpointName
  readonly method: 'GET' | 'POST' | 'DELETE'
  /** The path below the channel's base address, with a leading slash, and with a query where there is one. */
  target(asked: TargetRequest): string
  /**
   * Writes the upstream's name for the model wherever else the body repeats it. Called only when that name differs from
   * the client's.
   */
  rename?(body: BodyEdit, model: string): void
  /**
   * For upstreams that take a few at a time: the body to send is a list of `requests`, which are sent one after the
   * other. The answer that comes of them is `{heads, answers}`: of each its body, and those of its headers that `heads`
   * names in lower case.
   */
  readonly series?: { readonly heads: readonly string[] }
  /**
   * For an operation that counts a prompt: the member of the upstream's answer with the number, where that is another
   * than the operation's. Not every model can be asked so; where it fails, the number is estimated.
   */
  readonly counts?: string
  /** Changes the client's body where this upstream wants other words. */
  adapt?(body: BodyEdit): void
  /**
   * Changes the body as it is to be sent, translated or not, and the headers of the protocol, whose names are in lower
   * case. Called once for each attempt, last of all.
   */
  finish?(body: BodyEdit, headers: Record<string, string>): void
}

/** How an operation is charged; absent for operations that are free and have no hold. */
export interface Metering {
  /**
   * The members that limit the output tokens, the usual one first; `a.b` is member `b` inside `a`. Empty when the
   * operation has no output in tokens, or none that a client can limit.
   */
  readonly outputLimits: readonly string[]
  /** The least value of such a limit; 1 when absent. With 0, nothing is generated, but the prompt is still read. */
  readonly leastOutput?: 0
  /** Set together with an empty `outputLimits`: the most tokens of one answer when the model does not say. */
  readonly mostOutput?: number
  /**
   * The members that say how many answers are wanted; the largest value counts. Absent when there is always one answer.
   */
  readonly counts?: readonly string[]
  /** The member that may be a list of prompts, each with answers of its own. */
  readonly prompts?: string
  /** The member with predicted output. Rejected parts of the prediction are charged in addition to the answer. */
  readonly prediction?: string
  /** The operation makes pictures. `counts` say how many; the price depends on size and quality. */
  readonly pictures?: boolean
  /** The member with the text to be spoken. */
  readonly characters?: string
  /** The operation searches documents: the members with the documents and with the query for each of them. */
  readonly searched?: { readonly documents: string; readonly query: string }
  /** The tools that the upstream may run by itself for this operation. */
  readonly tools?: HostedTools
  /** The members that ask for a service tier, with the values that mean no particular tier. */
  readonly tiers?: readonly { readonly member: string; readonly usual: readonly string[] }[]
  /** The operation takes sound, charged by the second. */
  readonly sound?: boolean
  /** The operation is a session: each turn is charged, and not the session as a whole. */
  readonly turns?: boolean
  /**
   * The operation makes something sold by the second: the members that say how many seconds, which must agree, and the
   * number of seconds when all are absent.
   */
  readonly seconds?: { readonly members: readonly string[]; readonly usual: number }
  /** The answer only begins work, which is charged when it has ended. The answer itself is not counted. */
  readonly later?: boolean
}

/** The counters that an operation may count units with. Each of them may count zero. */
export function countersOf(metering: Metering): readonly Counter[] {
  let counted = counters.get(metering)
  if (!counted) counters.set(metering, (counted = readCounters(metering)))
  return counted
}

const counters = new WeakMap<Metering, readonly Counter[]>()

function readCounters({ seconds, characters, pictures, searched, sound }: Metering): readonly Counter[] {
  // An operation sold by the second counts no tokens.
  if (seconds) return ['call', 'seconds']
  return [
    'call',
    'prompt',
    'answer',
    ...(characters === undefined ? [] : (['characters'] as const)),
    ...(pictures ? (['pictures'] as const) : []),
    ...(searched ? (['searches'] as const) : []),
    ...(sound ? (['seconds'] as const) : [])
  ]
}

/** A parameter of a request, for the documentation: JSON Schema with a description. */
export type ParameterSchema = Readonly<Record<string, unknown>> & { readonly description: string }

/** One operation of the data listener, as plugins see it. Immutable, made once at start. */
export interface Operation {
  /** Unique, such as `chat` or `images.edits`. Records and metrics use it. */
  readonly name: string
  /** The word in `endpoints:` of keys and channels. Several operations may share one. */
  readonly endpoint: EndpointName
  /** One sentence for the documentation. */
  readonly summary: string
  readonly method: 'GET' | 'POST' | 'DELETE'
  /**
   * Templates of the paths, the published one first: `{name}` is one segment, or part of one beside literal text;
   * `{name...}` is the rest of the path. Parameters are percent-decoded after matching.
   */
  readonly paths: readonly string[]
  /**
   * Chooses between operations with the same path and method: the first whose `when` is true. Absent: always true. Runs
   * once per request.
   */
  when?(headers: Readonly<Record<string, string | string[] | undefined>>, query: string, path: string): boolean
  /** The client's protocol: decides the form of errors and the grammar of streams. */
  readonly protocol: ProtocolName
  readonly body: BodyKind
  /** Where the request names the model; absent when the operation has no model. */
  readonly model?: Place
  /** Where the client asks for a stream, or `always`. Absent: answers are never streams. */
  readonly stream?: Place | 'always'
  /** Called for each answer: how its events are written. Absent: as server-sent events. */
  framing?(): StreamFraming
  /**
   * For an operation that counts a prompt: the member of its answer with the number of tokens. The gateway estimates
   * that number when no channel of the model can count.
   */
  readonly counts?: string
  /** Its answers are vectors, which compare only with those of the same model. */
  readonly vectors?: true
  /** What an upstream may answer with, in addition to a stream of events. Default: `json`. */
  readonly answers?: readonly AnswerKind[]
  /**
   * The media types that an answer in bytes may have; others are refused, such as the error page of a proxy. Default:
   * any.
   */
  readonly media?: RegExp
  /**
   * How upstreams are asked, by the family of the channel. Of several forms, the first whose endpoint is in the
   * channel's `endpoints` is used. A channel without a matching form cannot serve the operation.
   */
  readonly upstream?: Readonly<Partial<Record<ChannelFamily, UpstreamForm | readonly UpstreamForm[]>>>
  /** No key is needed: the gateway answers by itself, without the chain. */
  readonly open?: boolean
  readonly metering?: Metering
  /** For a WebSocket: the subprotocol that is chosen when the client offers it. */
  readonly subprotocol?: string
  /**
   * Members of the body that are parsed before it is sent, with the most bytes that each may have when it is a list or
   * an object. The limit keeps the parsing of one short.
   */
  readonly parsed?: Readonly<Record<string, number>>
  /** The status of a whole answer to the client; by default the upstream's own. */
  readonly status?: number
  /**
   * The operation costs more than a conversation: a request that an upstream may have acted on is never sent again, to
   * any channel. Absent: such a request is sent again as long as the client was shown nothing, unless it begins work,
   * which is treated as dear.
   */
  readonly dear?: boolean
  /** Members of the body, fields of the form or parameters of the query, by name. */
  readonly parameters?: Readonly<Record<string, ParameterSchema>>
  readonly required?: readonly string[]
}

/** How a channel is asked for an operation; undefined when the channel cannot serve it. */
export function formFor({ endpoint, upstream }: Operation, channel: Channel): UpstreamForm | undefined {
  const forms = upstream?.[channel.protocol]
  if (forms === undefined) return undefined
  if ('protocol' in forms) return fits(forms, endpoint, channel) ? forms : undefined
  for (const form of forms) if (fits(form, endpoint, channel)) return form
  return undefined
}

function fits(form: UpstreamForm, endpoint: EndpointName, { endpoints, dialect }: Channel): boolean {
  return form.dialect === dialect && endpoints.has(form.endpoint ?? endpoint)
}
