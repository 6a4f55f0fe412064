// The state of one exchange: what plugins see of it, and what only the engine may touch.
import { Attempt, showPrompt } from '../../contract/attempt.ts'
import { BodyEdit } from '../../bodies/body.ts'
import type { RequestBody } from '../../bodies/body.ts'
import type { Upload } from '../../bodies/upload.ts'
import type { Chain } from './chain.ts'
import type { Channel } from '../../catalogue/catalogue.ts'
import type { Candidates } from '../../contract/candidates.ts'
import type { Client } from '../../clients/client.ts'
import type { Sponsor } from '../../clients/sponsor.ts'
import type { Awaitable, Outcome, TextPart } from '../../contract/contract.ts'
import { formFor } from '../../contract/operation.ts'
import type { Place } from '../../contract/operation.ts'
import type { Rehearsal } from '../../contract/rehearsal.ts'
import type { ServedRequest } from '../../contract/served.ts'
import { asGatewayError, GatewayError, ofCore } from '../../errors.ts'
import { exchangeId } from '../../wire/exchange-id.ts'
import type { LogFields, Logger } from '../../telling/log.ts'
import { PluginView } from './plugin-view.ts'
import type { Shared } from './plugin-view.ts'
import { protocols } from '../../protocols/index.ts'
import { UnderWay } from './under-way.ts'
import { checkMembers, flagOf, shortText } from './request-members.ts'
import { HeaderLines } from '../../wire/response-head.ts'
import type { Limits } from '../../catalogue/settings.ts'
import { slotCount } from '../../contract/slots.ts'
import type { Slot } from '../../contract/slots.ts'
import { checkSynchronous } from '../../contract/synchronous.ts'
import { Times } from '../../contract/times.ts'
import type { TimedHook } from '../../contract/times.ts'

/** A model that was asked and did not answer, so that another one stands in. */
export interface PassedModel {
  readonly candidates: Candidates
  readonly error: GatewayError
}

/** What gives something back, with the plugin that took it; undefined for the core. */
interface Release {
  view: PluginView | undefined
  call(outcome: Outcome): Awaitable<void>
}
/** Reads the body of an exchange, and has the exchange {@link LiveExchange.accept} it before anybody else has it. */
type Read = (exchange: LiveExchange) => Awaitable<RequestBody>

const none: readonly never[] = []

/** Made by the engine per request; plugins get it as {@link Exchange}. */
export class LiveExchange extends UnderWay implements Shared {
  readonly receivedAt = Date.now()
  readonly id = exchangeId(this.receivedAt)
  readonly startedAt = performance.now()
  readonly times = new Times()
  readonly request: ServedRequest
  client: Client
  /** Of the generation it began with. */
  readonly limits: Limits
  readonly rehearsal: Rehearsal | undefined
  readonly sponsor: Sponsor | undefined
  readonly attempts: Attempt[] = []
  candidates: Candidates | undefined
  /** The models that were asked before those candidates' one, and why it stands in for them. */
  readonly passed: PassedModel[] = []
  readonly releases: Release[] = []
  /** Of every reply. */
  readonly replyHeaders = HeaderLines.identified(this.id)
  /** The request body as it was read, out of the engine's body memory, which gets it back at the end. */
  held: Buffer | undefined
  /** The form that was read, closed at the end. */
  upload: Upload | undefined
  /** The operation has looked up what the request goes on with. */
  recalled = false
  rosterPlace: number | undefined = undefined
  readonly #log: Logger
  #ownLog: Logger | undefined
  /** As plugins see it, one view a plugin, from its first hook on. */
  readonly #views: PluginView[] = []
  readonly #read: Read
  readonly #onModel: Chain['onModel']
  /** With room for all slots from the start, as growing it would copy it twice in each exchange. */
  readonly #slots: unknown[] = Array(slotCount())
  #awaited: readonly Promise<void>[] = none
  #lateAwaited: readonly (() => Promise<void>)[] = none
  #body: RequestBody | undefined
  /** The body while it is read: a second reader of the same source would wait for ever. */
  #reading: Promise<RequestBody> | undefined
  /** What the body was refused with, for whoever asks for it again. */
  #refused: GatewayError | undefined
  #prompt: readonly TextPart[] | undefined
  #model = ''
  #requestedModel = ''
  #streaming = false
  /** How long the headers were before the first attempt. */
  #ownHeaders = 0

  /** `read` is called at most once. */
  constructor(
    request: ServedRequest,
    client: Client,
    limits: Limits,
    onModel: Chain['onModel'],
    read: Read,
    log: Logger,
    rehearsal?: Rehearsal,
    sponsor?: Sponsor
  ) {
    super()
    this.request = request
    this.client = client
    this.limits = limits
    this.rehearsal = rehearsal
    this.sponsor = sponsor
    this.#onModel = onModel
    this.#read = read
    this.#log = log
  }

  get body(): RequestBody {
    const remedy = 'this plugin says reads: head, so it must await exchange.read()'
    if (!this.#body) throw new Error(`the request body has not been read: ${remedy}`)
    return this.#body
  }

  get prompt(): readonly TextPart[] {
    if (!this.#prompt) {
      const parts: TextPart[] = []
      showPrompt(
        protocols[this.request.operation.protocol],
        new BodyEdit(this.body),
        (part) => (parts.push(part), part.text)
      )
      this.#prompt = parts
    }
    return this.#prompt
  }

  get model(): string {
    return this.#model
  }

  get requestedModel(): string {
    return this.#requestedModel
  }

  get streaming(): boolean {
    return this.#streaming
  }

  /** For what is no plugin's. */
  get log(): Logger {
    return (this.#ownLog ??= this.#log.child({ exchange: this.id }))
  }

  logOf(plugin: string): Logger {
    return this.#log.child({ exchange: this.id, plugin })
  }

  /** The exchange as this plugin sees it; the same view each time. */
  seenBy(plugin: string): PluginView {
    const views = this.#views
    for (let i = 0; i < views.length; i++) if (views[i]!.plugin === plugin) return views[i]!
    const view = new PluginView(this, plugin)
    views.push(view)
    return view
  }

  /** The views of the plugins that have taken part so far. */
  get views(): readonly PluginView[] {
    return this.#views
  }

  /**
   * Notes that a hook of the plugin with this view, which began at `began`, is done. Returns the present time, when the
   * next hook may begin. Both are values of `performance.now()`.
   */
  took(view: PluginView, hook: TimedHook, began: number): number {
    const now = performance.now()
    view.tookMs += this.times.note(view.plugin, hook, began, now)
    return now
  }

  /** For what is no plugin's. */
  complain(message: string, fields: LogFields): void {
    this.#log.error(message, { exchange: this.id, ...fields })
  }

  /** Whether work goes on at an upstream when the exchange is over. */
  get beginsWork(): boolean {
    const { operation } = this.request
    return operation.begins !== undefined && (operation.mayBegin?.(this) ?? true)
  }

  /** What is asked for must not be made twice. */
  get dear(): boolean {
    return this.request.operation.dear === true || this.beginsWork
  }

  read(): Awaitable<RequestBody> {
    if (this.#body) return this.#body
    if (this.#refused) throw this.#refused
    if (this.#reading) return this.#reading
    this.times.awaitBody()
    let read
    try {
      read = this.#read(this)
    } catch (error) {
      throw ofCore(error)
    }
    if (read instanceof Promise) {
      this.#reading = read
      read.catch(ofCore)
    }
    return read
  }

  /** The body has been read: looks up what everybody wants to know of it. Once. */
  accept(body: RequestBody): RequestBody {
    this.#body = body
    try {
      this.#lookInto(body)
    } catch (error) {
      // A plugin that passes over the refusal does not get the body after all.
      this.#body = undefined
      this.#refused = ofCore(error)
      throw this.#refused
    }
    this.times.haveBody()
    return body
  }

  #lookInto(body: RequestBody): void {
    const { operation } = this.request
    const { model: place, stream } = operation
    checkMembers(body, operation)
    if (place) {
      const model = this.#string(place)
      if (model === undefined || model === '') {
        throw new GatewayError(
          place.in === 'body' && body.fields.has(place.name) ? 'invalid_field' : 'missing_field',
          `The ${placeWords[place.in]} \`${place.name}\` must be given and be the name of a model, as listed by GET /v1/models.`,
          { param: place.name }
        )
      }
      this.#model = this.#requestedModel = model
    }
    this.#streaming = stream === 'always' || (stream !== undefined && this.#flag(stream))
    if (place && this.#onModel.length > 0) this.#rename()
  }

  #rename(): void {
    for (const { plugin, hook, call } of this.#onModel) {
      try {
        const began = performance.now()
        const name = call(this.seenBy(plugin), this.#model)
        this.took(this.seenBy(plugin), hook, began)
        checkSynchronous(name, 'onModel')
        if (name === '' || (name !== undefined && typeof name !== 'string'))
          throw new TypeError('onModel returns the name of a model, or nothing')
        if (name !== undefined) this.#model = name
      } catch (error) {
        throw asGatewayError(error, plugin)
      }
    }
  }

  /** The head of a stream is out: frees what only the request needed, as the stream may stay open for hours. */
  committed(): void {
    this.replyHeaders.join()
    if (this.held && this.#body) this.held = this.#body.rest(this.held)
  }

  get<T>(slot: Slot<T>): T {
    const value = this.#slots[slot.index]
    if (value === undefined)
      throw new Error(`the slot ${slot.name} is empty: list it in needs, so that the order of the chain is checked`)
    return value as T
  }

  find<T>(slot: Slot<T>): T | undefined {
    return this.#slots[slot.index] as T | undefined
  }

  set<T>(slot: Slot<T>, value: T): void {
    if (this.#slots[slot.index] !== undefined) throw new Error(`the slot ${slot.name} is filled already`)
    this.#slots[slot.index] = value
  }

  setHeader(name: string, value: string | number): void {
    this.replyHeaders.add(name, value)
  }

  replyHeader(name: string): string | undefined {
    return this.replyHeaders.find(name)
  }

  showAfter(durable: () => Promise<void>): void {
    if (!this.#streaming) return void (this.#lateAwaited = [...this.#lateAwaited, durable])
    const kept = durable()
    this.#keep(kept)
    this.relay?.showAfter(kept)
  }

  /** What the first byte waits for, now that it is due. */
  get awaited(): readonly Promise<void>[] {
    while (this.#lateAwaited.length > 0) {
      const [first, ...others] = this.#lateAwaited
      this.#lateAwaited = others
      this.#keep(begun(first!))
    }
    return this.#awaited
  }

  #keep(promise: Promise<void>): void {
    this.#awaited = [...this.#awaited, promise]
    // The engine looks at it when something is due; until then a rejection is not unhandled.
    promise.catch(() => {})
  }

  defer(call: Release['call']): void {
    this.deferFor(undefined, call)
  }

  deferFor(view: PluginView | undefined, call: Release['call']): void {
    this.releases.push({ view, call })
  }

  #string({ in: where, name }: Place): string | undefined {
    if (where === 'body') return shortText(this.body.fields, name)
    return where === 'path'
      ? this.request.parameters[name]
      : (new URLSearchParams(this.request.query).get(name) ?? undefined)
  }

  #flag(place: Place): boolean {
    if (place.is !== undefined) return this.#string(place) === place.is
    return place.in === 'body' ? flagOf(this.body.fields, place.name) : this.#string(place) === 'true'
  }

  /**
   * The next try, numbered, with the upstream's own name for the model of the candidates; `without` a member that
   * plugins may add.
   */
  attempt(channel: Channel, without?: string): Attempt {
    const { operation, parameters, query } = this.request
    // What was said of the answer of an attempt that failed is not true of another's.
    if (this.attempts.length === 0) this.#ownHeaders = this.replyHeaders.length
    else this.replyHeaders.forgetFrom(this.#ownHeaders)
    const form = formFor(operation, channel)
    if (!form)
      throw new GatewayError(
        'protocol_mismatch',
        `The model \`${this.#model}\` cannot be used with the endpoint ${operation.endpoint}.`,
        { param: 'model' }
      )
    const asked = this.candidates?.model
    const name = asked?.name ?? this.#model
    const model = channel.models.get(name) ?? asked?.upstreamName ?? name
    if (name !== this.#model || asked?.standIns) this.setHeader('x-sluice-model', name)
    const target = {
      protocol: protocols[form.protocol],
      method: form.method,
      path:
        pathTo(channel, model) + form.target({ model, streaming: this.#streaming, parameters, query, exchange: this }),
      form
    }
    const attempt = new Attempt(
      this.attempts.length + 1,
      channel,
      model,
      target,
      this.body,
      protocols[operation.protocol],
      without,
      name
    )
    if (model !== this.#requestedModel) {
      if (operation.model?.in === 'body') attempt.body.set(operation.model.name, model)
      form.rename?.(attempt.body, model)
    }
    form.adapt?.(attempt.body)
    this.attempts.push(attempt)
    return attempt
  }
}

/** What a channel puts before the paths of its protocol. */
function pathTo({ modelPath }: Channel, model: string): string {
  return modelPath === undefined || model === '' ? '' : modelPath.replaceAll('{model}', encodeURIComponent(model))
}

const placeWords = { body: 'field', path: 'part of the path', query: 'parameter' } as const

function begun(durable: () => Promise<void>): Promise<void> {
  try {
    return durable()
  } catch (error) {
    return Promise.reject(error)
  }
}
