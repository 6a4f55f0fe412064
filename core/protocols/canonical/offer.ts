// Changes a client's tools to what an upstream supports, and changes the upstream's calls back.
import type { AnswerEvent, EmitEvent, PartOpening } from './answer.ts'
import { asObject } from '../object.ts'
import { parseJson } from './json.ts'
import { byName } from './request.ts'
import type { AssistantPart, ModelRequest, Tool, ToolChoice, Turn } from './request.ts'
import { ToolNames } from './tool-names.ts'
import type { NameRule, NameTable } from './tool-names.ts'

/** What an upstream needs. */
export interface OfferRules {
  readonly names: NameRule
  /** Whether it knows tools that take free text. Without that they become functions with one argument. */
  readonly customTools: boolean
  /** Whether output with a schema has to be asked for with a tool that takes the schema. */
  readonly schemaAsTool: boolean
}

/** The name of the tool whose arguments are the answer. */
const answerTool = 'json'

/** What is needed to change the calls back, as plain data. */
export interface OfferedTools {
  readonly names: NameTable
  readonly custom: readonly string[]
  readonly answerTool: string | undefined
}

/** The tools of one exchange. */
export class Offer {
  readonly #rules: OfferRules
  readonly #names: ToolNames
  /** The upstream's names of tools that take free text. */
  readonly #custom: Set<string>
  /** The upstream's name of the tool whose arguments are the answer. */
  #answerTool: string | undefined

  /** `made`: the result of an offer that was made elsewhere for the same request. */
  constructor(rules: OfferRules, made: OfferedTools = { names: [], custom: [], answerTool: undefined }) {
    this.#rules = rules
    this.#names = ToolNames.of(rules.names, made.names)
    this.#custom = new Set(made.custom)
    this.#answerTool = made.answerTool
  }

  get made(): OfferedTools {
    return { names: this.#names.table, custom: [...this.#custom], answerTool: this.#answerTool }
  }

  /** The request with tools that the upstream supports. The original is not changed. */
  request(request: ModelRequest): ModelRequest {
    // The present tools get their names first, so that they keep them if an earlier call in the conversation has the
    // same.
    const tools = request.tools.map((tool) => this.#tool(tool))
    const { toolChoice, format } = request
    const made: ModelRequest = {
      ...request,
      tools,
      toolChoice: this.#choice(toolChoice, request.tools),
      turns: request.turns.map((turn) => this.#turn(turn))
    }
    if (format?.type !== 'json_schema' || !this.#rules.schemaAsTool) return made
    // The client forces a call, and the schema is for an answer in text.
    if (toolChoice?.mode === 'required' || toolChoice?.mode === 'named') return { ...made, format: undefined }
    const name = this.#names.toUpstream(answerTool, '')
    this.#answerTool = name
    const description = format.description ?? 'Gives the answer. Call this once, with the whole answer.'
    const answer: Tool = { name, description, parameters: format.schema, strict: undefined, custom: false }
    const others = tools.length > 0 && toolChoice?.mode !== 'none'
    const allowed = made.toolChoice && made.toolChoice.mode !== 'named' ? made.toolChoice.allowed : undefined
    const choice: ToolChoice = others
      ? { mode: 'required', ...(allowed && { allowed: [...allowed, name] }) }
      : { mode: 'named', name }
    return { ...made, tools: [...tools, answer], format: undefined, toolChoice: choice }
  }

  /** The consumer to give the upstream's events to: it passes them on as the client has to see them. */
  back(emit: EmitEvent): EmitEvent {
    const nothingChanged =
      this.#names.unchanged && this.#answerTool === undefined && (this.#custom.size === 0 || this.#rules.customTools)
    return nothingChanged ? emit : new Return(emit, this).emit
  }

  /** How a call is opened for the client. `unwrap`: its input is in the one argument. */
  opening(call: PartOpening & { type: 'tool_call' }): { opening: PartOpening; unwrap: boolean } {
    if (call.name === this.#answerTool) return { opening: { type: 'text' }, unwrap: false }
    const custom = this.#custom.has(call.name)
    return { opening: { ...call, ...this.#names.toClient(call.name), custom }, unwrap: custom && !call.custom }
  }

  #tool({ namespace, ...tool }: Tool): Tool {
    const name = this.#names.toUpstream(tool.name, namespace)
    if (!tool.custom) return { ...tool, name }
    this.#custom.add(name)
    if (this.#rules.customTools) return { ...tool, name }
    const { grammar, ...fn } = tool
    return { ...fn, name, description: described(tool), custom: false, parameters: freeText }
  }

  /** Changes the names in a tool choice. It has only the name, even of a tool in a namespace. */
  #choice(choice: ToolChoice | undefined, tools: readonly Tool[]): ToolChoice | undefined {
    if (!choice) return undefined
    const named = byName(tools)
    const nameOf = (name: string): string => this.#names.toUpstream(name, named.get(name)?.namespace)
    if (choice.mode === 'named') return { mode: 'named', name: nameOf(choice.name) }
    return choice.allowed ? { mode: choice.mode, allowed: choice.allowed.map(nameOf) } : choice
  }

  #turn(turn: Turn): Turn {
    if (turn.role === 'assistant') return { role: 'assistant', parts: turn.parts.map((part) => this.#part(part)) }
    if (turn.role !== 'tool') return turn
    const results = turn.results.map((result) => ({
      ...result,
      name: result.name === '' ? '' : this.#names.toUpstream(result.name, result.namespace),
      custom: result.custom && this.#rules.customTools
    }))
    return { role: 'tool', results }
  }

  #part(part: AssistantPart): AssistantPart {
    if (part.type !== 'tool_call') return part
    const { namespace, ...call } = part
    const name = this.#names.toUpstream(call.name, namespace)
    if (!call.custom || this.#rules.customTools) return { ...call, name }
    return { ...call, name, custom: false, input: JSON.stringify({ [argument]: call.input }) }
  }
}

/** The tool's description, with the grammar that its free text has to follow. */
function described({ description, grammar }: Tool): string | undefined {
  if (!grammar) return description
  const rule = `The argument "${argument}" is text that follows this grammar (${grammar.syntax}):\n${grammar.definition}`
  return description === undefined ? rule : `${description}\n\n${rule}`
}

const argument = 'input'
const freeText: Tool['parameters'] = {
  type: 'object',
  properties: { [argument]: { type: 'string' } },
  required: [argument]
}

/** Changes the calls of one answer back. */
class Return {
  readonly #emit: EmitEvent
  readonly #offer: Offer
  /** Parts whose input is in an argument, which can be read only when it is complete. */
  readonly #wrapped = new Set<number>()
  /** Parts that became text. */
  readonly #answers = new Set<number>()
  /** Candidates with a call that is still one for the client. */
  readonly #calling = new Set<number>()

  constructor(emit: EmitEvent, offer: Offer) {
    this.#emit = emit
    this.#offer = offer
  }

  readonly emit = (event: AnswerEvent): void => {
    switch (event.type) {
      case 'open':
        return this.#open(event)
      case 'delta': {
        if (!this.#wrapped.has(event.part)) this.#emit(event)
        return
      }
      case 'close':
        return this.#close(event)
      case 'finish': {
        const { finish, candidate } = event
        const answered = finish.reason === 'tool_calls' && !this.#calling.has(candidate)
        return this.#emit(answered ? { ...event, finish: { reason: 'stop' } } : event)
      }
      default:
        this.#emit(event)
    }
  }

  #open(event: AnswerEvent & { type: 'open' }): void {
    if (event.opening.type !== 'tool_call') return this.#emit(event)
    const { opening, unwrap } = this.#offer.opening(event.opening)
    if (unwrap) this.#wrapped.add(event.part)
    if (opening.type === 'text') this.#answers.add(event.part)
    else this.#calling.add(event.candidate)
    this.#emit({ ...event, opening })
  }

  #close(event: AnswerEvent & { type: 'close' }): void {
    if (this.#answers.has(event.part)) return this.#emit({ ...event, text: '' })
    if (!this.#wrapped.has(event.part)) return this.#emit(event)
    const text = unwrapped(event.text)
    if (text !== '') this.#emit({ type: 'delta', part: event.part, text })
    this.#emit({ ...event, text })
  }
}

/** The one argument of a call. When it cannot be read, such as after a cut, the whole input. */
function unwrapped(input: string): string {
  try {
    const value = asObject(parseJson(input))?.[argument]
    return typeof value === 'string' ? value : input
  } catch {
    return input
  }
}
