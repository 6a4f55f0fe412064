// One message of a response body: a server-sent event, a whole JSON body, or a run of opaque bytes.
import { parse } from '../bodies/parse.ts'
import { shallowOf } from '../bodies/json/shallow.ts'
import { lensInTurns, lensOf, maxDepth } from '../bodies/lens.ts'
import type { Lens } from '../bodies/lens.ts'
import { asObject, isDeep } from '../protocols/object.ts'

/** Payloads above this many bytes are not parsed as a whole where a part of them is enough. */
const largeBytes = 64 * 1024

/**
 * `event`: one server-sent event with its blank line. `comment`: a block of a stream that carries no data.
 * `json`: a whole body. `bytes`: a run of an opaque body, or of a JSON body too large to be held. `frame`: one message
 * of a realtime connection, from either side.
 */
export type MessageKind = 'event' | 'comment' | 'json' | 'bytes' | 'frame'

/** A JSON object that passes in runs because it is too large to be held. */
export interface Outlined {
  /** The object as far as it has come, without its large members. */
  readonly outline: Buffer
}

/**
 * One message. It belongs to the relay and is immutable. A stage may keep it, which keeps its whole chunk of memory
 * alive, unless it says that it `borrows`.
 */
export class Message {
  readonly kind: MessageKind
  /** The exact bytes on the wire, framing included. */
  readonly bytes: Buffer
  /** The payload: the joined `data:` lines of an event, the body itself otherwise. */
  readonly data: Buffer
  /** The `event:` field of an event, empty when it has none. */
  readonly event: string
  /** The sender of a frame. All other messages come from the upstream. */
  readonly from: 'client' | 'upstream'
  /** True for a frame that is not text. */
  readonly binary: boolean
  /** True for an event that is known to be content and to report no usage. */
  plain = false
  /** For a run: the JSON object that it is part of; undefined when it is not part of one. */
  body: Outlined | undefined = undefined
  #json: unknown
  #shallow: { readonly value: unknown } | undefined
  #parsed = false
  /** Undefined before its first use, null when the payload has no lens. */
  #lens: Lens | null | undefined
  #inside: Map<string, Lens | null> | undefined

  constructor(
    kind: MessageKind,
    bytes: Buffer,
    data: Buffer = bytes,
    event = '',
    from: 'client' | 'upstream' = 'upstream',
    binary = false
  ) {
    this.from = from
    this.binary = binary
    this.kind = kind
    this.bytes = bytes
    this.data = data
    this.event = event
  }

  /**
   * Whether it could be read in more than one way: the payload, or one of these members of it, is an object that no
   * lens can look into, because it has a member twice. What is nested elsewhere every reader takes by the same rule: of
   * two members of one name the last one counts.
   */
  isTwofold(members: readonly string[] = []): boolean {
    if (!this.lens) return asObject(this.json()) !== undefined
    return members.some((member) => this.inside(member) === null)
  }

  /** Whether anybody has looked into the payload. */
  get seen(): boolean {
    return this.#parsed || this.#shallow !== undefined || this.#lens !== undefined
  }

  /** Whether {@link json} has been asked before, and costs nothing any more. */
  get parsed(): boolean {
    return this.#parsed
  }

  /**
   * The payload parsed as JSON, at most once and shared by all stages; undefined when it is not JSON, or is nested
   * deeper than `maxDepth`.
   */
  json(): unknown {
    if (!this.#parsed) {
      this.#parsed = true
      try {
        const value = parse(this.data.toString('utf8'))
        this.#json = this.data.length > 2 * maxDepth && isDeep(value) ? undefined : value
      } catch {
        this.#json = undefined
      }
    }
    return this.#json
  }

  /**
   * As {@link json}, but for a large payload it leaves out what is nested deeper than anything the gateway looks for in
   * answers, and in one of very many values what is nested less deep, and has the number of its bytes in its place.
   * Undefined when a large payload is not one object with distinct keys.
   */
  shallow(): unknown {
    if (this.#parsed || this.data.length <= largeBytes) return this.json()
    if (this.#shallow === undefined) {
      const kept = this.lens && shallowOf(this.data)
      this.#shallow = kept ? { value: parse(kept.toString('utf8')) } : { value: undefined }
      // Nothing was left out, so this is also the result of json().
      if (kept === this.data) [this.#parsed, this.#json] = [true, this.#shallow.value]
    }
    return this.#shallow.value
  }

  /**
   * The members of the payload, found at most once. Undefined when the payload is not a JSON object, has a key twice,
   * or is nested too deep for a lens.
   */
  get lens(): Lens | undefined {
    if (this.#lens === undefined) this.#lens = lensOf(this.data)
    return this.#lens ?? undefined
  }

  /**
   * The members of an object in the payload: undefined when the member is not an object, null when no lens can read it.
   */
  inside(key: string): Lens | null | undefined {
    let found = this.#inside?.get(key)
    if (found === undefined && this.lens?.type(key) === 'object') {
      found = lensOf(this.lens.slice(key)!)
      this.#keep(key, found)
    }
    return found
  }

  /**
   * Finds the members of a large payload, and then those {@link inside} the named members, over several turns of the
   * event loop. Call it before `lens` and `inside` are used. Undefined when everything was done at once.
   */
  lookInto(members: readonly string[] = []): Promise<void> | undefined {
    const found = lensInTurns(this.data)
    if (found instanceof Promise) return found.then((lens) => this.#lookInside((this.#lens = lens), members))
    return this.#lookInside((this.#lens = found), members)
  }

  #lookInside(lens: Lens | null, members: readonly string[]): Promise<void> | undefined {
    for (let at = 0; lens !== null && at < members.length; at++) {
      const key = members[at]!
      if (lens.type(key) !== 'object') continue
      const found = lensInTurns(lens.slice(key)!)
      if (found instanceof Promise)
        return found.then((inner) => {
          this.#keep(key, inner)
          return this.#lookInside(lens, members.slice(at + 1))
        })
      this.#keep(key, found)
    }
    return undefined
  }

  #keep(key: string, inner: Lens | null): void {
    this.#inside ??= new Map()
    this.#inside.set(key, inner)
  }

  /** The same message in memory of its own. */
  own(): Message {
    const { kind, data, event, from, binary } = this
    const bytes = Buffer.from(this.bytes)
    const start = data.byteOffset - this.bytes.byteOffset
    const isWithin = data.buffer === this.bytes.buffer && start >= 0 && start + data.length <= bytes.length
    const own = isWithin ? bytes.subarray(start, start + data.length) : Buffer.from(data)
    return new Message(kind, bytes, own, event, from, binary)
  }

  /** The same message with another payload: framing, name and neighbouring lines stay as they came. */
  withData(data: Buffer): Message {
    const { kind, bytes, event, from, binary } = this
    if (kind === 'frame') return new Message(kind, data, data, '', from, binary)
    const start = this.data.byteOffset - bytes.byteOffset
    const end = start + this.data.length
    // An event with several data lines has its joined payload outside `bytes`.
    if (this.data.buffer !== bytes.buffer || start < 0 || end > bytes.length)
      return Message.event(data.toString('utf8'), event)
    const whole = Buffer.concat([bytes.subarray(0, start), data, bytes.subarray(end)])
    const changed = new Message(kind, whole, whole.subarray(start, start + data.length), event, from)
    changed.body = this.body
    return changed
  }

  /** A frame of a session. */
  static frame(data: Buffer | string, from: 'client' | 'upstream', binary = false): Message {
    const bytes = typeof data === 'string' ? Buffer.from(data) : data
    return new Message('frame', bytes, bytes, '', from, binary)
  }

  /** A server-sent event with this payload; line breaks in it are split over several `data:` lines. */
  static event(data: string, event = ''): Message {
    const head = event ? `event: ${event}\n` : ''
    if (data.includes('\n')) {
      const lines = data.split('\n').join('\ndata: ')
      return new Message('event', Buffer.from(`${head}data: ${lines}\n\n`), Buffer.from(data), event)
    }
    const bytes = Buffer.from(`${head}data: ${data}\n\n`)
    return new Message('event', bytes, bytes.subarray(Buffer.byteLength(head) + 'data: '.length, -2), event)
  }
}
