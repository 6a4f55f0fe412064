// Follows one answer and says in the end what it consumed.
import { completionTokens, Message, noUsage, pricedClasses, promptTokens } from '../../core/contract/contract.ts'
import type { RequestBody } from '../../core/bodies/body.ts'
import type { Protocol, ReportedUsage, Tally, UsageReader } from '../../core/protocols/index.ts'
import type { MeteredUsage } from '../../core/contract/slots.ts'
import type { SoundLength } from '../estimate.ts'
import type { Usage } from '../../core/money/usage.ts'

/** Longest event that is kept as a sample. */
const sampleBytes = 4 * 1024

/** The upper bounds of an estimate in tokens, and the length of the sound when that is charged by the second. */
export interface Bounds {
  input(bytesPerToken: number): number
  output: number
  sound: SoundLength | undefined
}

/** One per attempt. Costs a search for one word per event; parses only what holds usage. */
export class Meter {
  readonly protocol: Protocol
  /** Set for protocols in which several messages report usage. */
  readonly #reader: UsageReader | undefined
  /** Set for protocols whose charged units the gateway can count by itself. */
  readonly #tally: Tally | undefined
  readonly #tools: Tally | undefined
  readonly #bytesPerToken: number
  #usage: Usage | undefined
  /** Whether the last report of the upstream had numbers that cannot be true. */
  insane = false
  #events = 0
  /** The events that are measured by their length alone, their bytes, and the bytes of text in the larger events. */
  #smallEvents = 0
  #eventBytes = 0
  #largeBytes = 0
  /**
   * The first event, the second, the fourth, and so on, as latin1: a buffer would take four times its bytes. They show
   * how much of an event is not text.
   */
  readonly #samples: string[] = []
  #body: Message | undefined
  /** Set for an answer that is too large to be held: the body that its runs of bytes are parts of. */
  #runs: Message['body']
  #runBytes = 0
  /** The bytes of these runs, without runs of pictures and sound. */
  #runText = 0

  /** `tools`: counts the calls of hosted tools, where there may be some. */
  constructor(protocol: Protocol, { fields }: RequestBody, bytesPerToken: number, tools: Tally | undefined) {
    this.#tools = tools
    this.protocol = protocol
    this.#tally = protocol.tally?.(fields)
    this.#reader = protocol.usageReader?.()
    this.#bytesPerToken = bytesPerToken
  }

  /** Takes the next message. Reports are cumulative: the last one counts. */
  see(message: Message): void {
    this.#tally?.see(message)
    this.#tools?.see(message)
    if (message.kind === 'bytes') return this.#seeRun(message)
    // Some upstreams report usage in every event, so an event with a report may carry text too.
    this.#count(message)
    this.#take(this.#reader ? this.#reader.read(message) : this.protocol.readUsage(message))
  }

  #take(reported: ReportedUsage): void {
    if (reported === undefined) return
    this.insane = reported === 'insane'
    // A zero after real counts is a postscript that knows of nothing, not a correction.
    if (reported !== 'insane' && !(this.#usage && isZero(reported))) this.#usage = reported
  }

  /**
   * The final account: what the upstream reported, or what was seen of the answer by its length; the larger of both
   * where a stream broke off. `boundsOf` is called only for an estimate.
   */
  read(complete: boolean, boundsOf: () => Bounds): MeteredUsage {
    // A whole answer has come to its end when it is seen, whatever becomes of it.
    const metered = this.#read(complete || this.#body !== undefined, boundsOf)
    const calls = this.#tools?.read()
    return calls ? { ...metered, usage: { ...metered.usage, ...calls } } : metered
  }

  #read(complete: boolean, boundsOf: () => Bounds): MeteredUsage {
    if (this.#runs) this.#take(this.protocol.readUsage(new Message('json', this.#runs.outline)))
    const units = this.#tally?.read()
    if (this.#usage && !this.insane) {
      const usage = complete || this.#events === 0 ? this.#usage : this.#atLeastDelivered(this.#usage, boundsOf())
      return { usage: units ? { ...usage, ...units } : usage, source: complete ? 'upstream' : 'partial' }
    }
    // What is charged by the piece is known; pictures and sound have no tokens that their size could tell.
    if (units) return { usage: { ...noUsage, ...units }, source: complete ? 'measured' : 'partial' }
    const { input, output, sound } = boundsOf()
    if (sound)
      return {
        usage: { ...noUsage, second: sound.second },
        source: !complete ? 'partial' : sound.measured ? 'measured' : 'estimated'
      }
    const usage = { ...noUsage, input: input(this.#bytesPerToken), output: Math.min(this.#outputTokens(), output) }
    return { usage, source: complete ? 'estimated' : 'partial' }
  }

  /** Raises a report to what was delivered, because a report before the end of a stream misses what came after it. */
  #atLeastDelivered(reported: Usage, { input, output }: Bounds): Usage {
    const unreported = Math.min(this.#outputTokens(), output) - completionTokens(reported)
    return {
      ...reported,
      input: promptTokens(reported) > 0 ? reported.input : input(this.#bytesPerToken),
      output: reported.output + Math.max(0, unreported)
    }
  }

  #count(message: Message): void {
    if (message.kind === 'json') {
      this.#body = message
      return
    }
    const { length } = message.data
    // An end marker has no text.
    if (length <= '[DONE]'.length) return
    this.#events++
    if (length > sampleBytes) {
      // Pictures and sound come in large events, which have been parsed already.
      this.#largeBytes += this.protocol.answerBytes(message.shallow())
      return
    }
    this.#eventBytes += length
    this.#smallEvents++
    if ((this.#smallEvents & (this.#smallEvents - 1)) === 0) this.#samples.push(message.data.toString('latin1'))
  }

  /** An event carries a token or more; its text is what it is longer by than the usual envelope. */
  #outputTokens(): number {
    if (this.#body) return this.#tokens(this.protocol.answerBytes(this.#body.json()))
    if (this.#runBytes > 0) return this.#tokens(this.#runText)
    return Math.max(
      this.#events,
      this.#tokens(this.#eventBytes - this.#smallEvents * this.#envelope() + this.#largeBytes)
    )
  }

  /** The median of the samples that have text; without any, no event is taken to have some. */
  #envelope(): number {
    const envelopes = this.#samples.flatMap((sample) => {
      const text = this.protocol.answerBytes(parsed(Buffer.from(sample, 'latin1')))
      return text > 0 ? [sample.length - text] : []
    })
    return envelopes.sort((a, b) => a - b)[envelopes.length >> 1] ?? this.#eventBytes
  }

  #tokens(bytes: number): number {
    return Math.max(0, Math.ceil(bytes / this.#bytesPerToken))
  }

  #seeRun({ bytes, body }: Message): void {
    this.#runBytes += bytes.length
    if (!isEncoded(bytes)) this.#runText += bytes.length
    this.#runs = body
  }
}

/** Whether a run is base64: its middle has nothing but letters of base64, which no text in any language has. */
function isEncoded(run: Buffer): boolean {
  const middle = run.length >> 1
  return run.length >= 1024 && /^[A-Za-z0-9+/=_-]+$/.test(run.toString('latin1', middle - 256, middle + 256))
}

function parsed(payload: Buffer): unknown {
  try {
    return JSON.parse(payload.toString('utf8'))
  } catch {
    return undefined
  }
}

function isZero(usage: Usage): boolean {
  return pricedClasses.every((name) => !usage[name])
}
