// What an endpoint is: everything that differs between operations, so that whoever runs them knows none by name.
import type { BodyEdit } from '../bodies/body.ts'
import type { Channel, ChannelFamily } from '../catalogue/catalogue.ts'
import type { EndpointName } from '../catalogue/endpoints.ts'
import type { HostedTools } from '../protocols/hosted-tools.ts'
import type { ProtocolName, StreamFraming } from '../protocols/index.ts'
import type { Counter } from '../money/classes.ts'
import type { Slot } from './slots.ts'

/**
 * Where a value stands in a request: a top-level member of its JSON body or a field of its form, or a parameter of its
 * path or query.
 */
export interface Place {
  in: 'body' | 'path' | 'query'
  name: string
  /** Of a flag: the text that means yes; default the literal `true`. */
  is?: string
}

/**
 * What a request body is. `json`: one JSON object. `form`: a form with files (RFC 7578). `either`: what its media type
 * says. `none`: it has none, and one that is sent is not read. `socket`: the request opens a WebSocket.
 */
export type BodyKind = 'json' | 'form' | 'either' | 'none' | 'socket'

/**
 * What an answer may be. `json`: one JSON value, looked at as a whole while it is small. `events`: server-sent events.
 * `bytes`: anything else, passed on as it comes. `frames`: of a WebSocket.
 */
export type AnswerKind = 'json' | 'events' | 'bytes' | 'frames'

/** A request as far as a target depends on it. */
export interface TargetRequest {
  /** The upstream's own name for the model. */
  readonly model: string
  readonly streaming: boolean
  /** Of the client's path, decoded. */
  readonly parameters: Readonly<Record<string, string>>
  /** Of the client, without the question mark. */
  readonly query: string
  /** For what the operation has found out about the request. */
  readonly exchange: { find<T>(slot: Slot<T>): T | undefined }
}

/** How an operation is asked of an upstream. One object for all requests. */
export interface UpstreamForm {
  /** What is spoken there; another than the operation's own means that the request is translated. */
  readonly protocol: ProtocolName
  /** The word in a channel's `endpoints` that says that it is spoken there; default the operation's own. */
  readonly endpoint?: EndpointName
  readonly method: 'GET' | 'POST' | 'DELETE'
  /** The path below the channel's base address, with a leading slash, and with a query where there is one. */
  target(asked: TargetRequest): string
  /**
   * Sets the upstream's own name for the model where the body repeats it; only called when that is another than the
   * client's.
   */
  rename?(body: BodyEdit, model: string): void
  /** Brings the client's body into the upstream's words. */
  adapt?(body: BodyEdit): void
}

/** What an operation is charged for; absent for those that are free and hold nothing. */
export interface Metering {
  /**
   * Members by which clients limit the output tokens, the usual one first; `a.b` stands inside `a`. Empty: it has no
   * output in tokens, or one that nobody can limit.
   */
  readonly outputLimits: readonly string[]
  /** The least that such a limit may be; default 1. Nothing is made with 0, and the prompt is read all the same. */
  readonly leastOutput?: 0
  /** Then: the most tokens of one of its answers, where the model does not say how many that are. */
  readonly mostOutput?: number
  /**
   * The members that say how many answers are wanted, of which the largest counts; absent where there is always one.
   */
  readonly counts?: readonly string[]
  /** The member that may be a list of prompts, each read by itself and with answers of its own. */
  readonly prompts?: string
  /** The member that foretells the answer: what of it turns out otherwise is charged beside the answer. */
  readonly prediction?: string
  /** It makes pictures: as many as `counts` say, priced by size and quality. */
  readonly pictures?: boolean
  /** The member with the text that is spoken. */
  readonly characters?: string
  /** It searches documents: the members that have them, and what is searched for in each of them. */
  readonly searched?: { readonly documents: string; readonly query: string }
  /** The upstream may run tools of its own for it. */
  readonly tools?: HostedTools
  /** The members by which a request asks for a service tier, with the values that ask for none in particular. */
  readonly tiers?: readonly { readonly member: string; readonly usual: readonly string[] }[]
  /** It takes sound, by the second. */
  readonly sound?: boolean
  /** It is a session: nothing is charged for it as a whole, but each of its turns. */
  readonly turns?: boolean
  /**
   * It makes what is sold by the second: the members that say how many, which must agree, and how many it makes where
   * none does.
   */
  readonly seconds?: { readonly members: readonly string[]; readonly usual: number }
  /** Its answer begins what is charged when that has ended: nothing is counted before. */
  readonly later?: boolean
}

/** What counts units of such an operation; each may count none. */
export function countersOf({ seconds, characters, pictures, searched, sound }: Metering): readonly Counter[] {
  // What is sold by the second alone counts no tokens.
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

/** A parameter of a request, for documentation: JSON Schema with a description. */
export type ParameterSchema = Readonly<Record<string, unknown>> & { readonly description: string }

/** One operation of the data listener, as plugins see it. Immutable, made once at start. */
export interface Operation {
  /** Unique: `chat`, `images.edits`. The word in records and metrics. */
  readonly name: string
  /** The word in `endpoints:` of keys and channels, which several operations may share. */
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
   * Of several operations with one path and method, the first whose `when` holds is meant; absent: always. Runs once
   * per request.
   */
  when?(headers: Readonly<Record<string, string | string[] | undefined>>, query: string, path: string): boolean
  /** The client's: decides the form of errors and the grammar of streams. */
  readonly protocol: ProtocolName
  readonly body: BodyKind
  /** Where the model stands; absent when the operation has none. */
  readonly model?: Place
  /** Where the client says that it wants events, or whether it always or never gets them. Default: never. */
  readonly stream?: Place | 'always'
  /** Made for each answer: how its events are written. Absent: as server-sent events. */
  framing?(): StreamFraming
  /**
   * It counts a prompt: the member of its answer that says how many tokens that has, which is estimated where no
   * channel of the model can count.
   */
  readonly counts?: string
  /** What an upstream may answer with, beside the events of a stream. Default: `json`. */
  readonly answers?: readonly AnswerKind[]
  /** Which media types bytes may have that are an answer: a page of a proxy is none. Default: any. */
  readonly media?: RegExp
  /**
   * How it is asked, by the family of a channel. Of several forms, the first that the channel's `endpoints` have is
   * spoken. A channel of a family that stands not here, or with none of the endpoints, cannot serve it.
   */
  readonly upstream?: Readonly<Partial<Record<ChannelFamily, UpstreamForm | readonly UpstreamForm[]>>>
  /** Anybody may ask, without a key: the chain is left out, and the gateway answers by itself. */
  readonly open?: boolean
  readonly metering?: Metering
  /** Of a WebSocket: the subprotocol that is chosen where the client offers it. */
  readonly subprotocol?: string
  /**
   * Members of the body that are parsed before it is sent, with the most bytes that they may have where they are lists
   * or objects: what is made of one at once must not take long, whatever is in it.
   */
  readonly parsed?: Readonly<Record<string, number>>
  /** That clients get with a whole answer; default the upstream's own. */
  readonly status?: number
  /**
   * What it makes costs more than a conversation: a request that an upstream may have acted on is sent to no other, nor
   * there again. Absent: it is, as long as nothing was shown; but for what begins work, which is as dear.
   */
  readonly dear?: boolean
  /** Members of the body, fields of the form or parameters of the query, by name. */
  readonly parameters?: Readonly<Record<string, ParameterSchema>>
  readonly required?: readonly string[]
}

/** How a channel is asked for an operation; undefined when it cannot serve it. */
export function formFor({ endpoint, upstream }: Operation, channel: Channel): UpstreamForm | undefined {
  const forms = upstream?.[channel.protocol]
  if (forms === undefined) return undefined
  if ('protocol' in forms) return channel.endpoints.has(forms.endpoint ?? endpoint) ? forms : undefined
  return forms.find((form) => channel.endpoints.has(form.endpoint ?? endpoint))
}
