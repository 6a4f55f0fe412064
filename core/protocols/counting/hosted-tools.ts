// Tools that an upstream runs itself, for a fee and with more input: which ones a request offers, and how often they
// ran.
import type { Lens } from '../../bodies/lens.ts'
import type { PricedClass } from '../../money/classes.ts'
import type { Usage } from '../../money/usage.ts'
import { ListCount } from './list-count.ts'
import { asObject, asObjects, asText } from '../object.ts'
import type { Payload, Tally } from '../protocol.ts'
import { ToolSearch } from './tool-list.ts'
import type { ListedTool } from './tool-list.ts'

/** The hosted tools that a request offers. */
export interface OfferedTools {
  /** The usage classes that count their calls. Tools without a fee have none. */
  readonly fees: readonly PricedClass[]
  /** The most calls that the limits of the tools allow, and how many limits are missing. */
  readonly calls: number
  readonly open: number
}

/** What a search has found: no tools where the request offers none that the upstream runs. */
export interface Offer {
  readonly tools: OfferedTools | undefined
}

/** The members of a body that is edited. */
export interface EditedMembers {
  /** A member as JSON text, with the edits so far; undefined when there is none. */
  raw(key: string): Buffer | undefined
  set(key: string, value: unknown): void
  setRaw(key: string, json: string): void
}

/** The hosted tools of a protocol. */
export interface HostedTools {
  /** The search for them; undefined when the request has no tools at all. */
  offered(request: Lens): ToolSearch<Offer> | undefined
  /**
   * The search that sets the limits that are missing; undefined when they are set. Absent when the protocol has no
   * limits.
   */
  limit?(body: EditedMembers, calls: number): ToolSearch<true> | undefined
  /**
   * The top-level member that limits all calls together. A client's own limit stands there, and `limit` adds it. Not
   * every upstream knows it. Absent when there is none.
   */
  readonly adds?: string
  /** Counts the calls in an answer that its usage does not report. */
  counting(): Tally
}

/** What calls of a tool count as. `client`: the client runs it. `none`: it has no fee. */
type Kind = PricedClass | 'none' | 'client'

/** https://platform.openai.com/docs/guides/tools; some types end with a date. */
const responsesKinds: readonly (readonly [RegExp, Kind])[] = [
  [
    /^(function|custom(_tool)?|computer.*|local_shell|shell|apply_patch|tool_search|namespace|programmatic_.*)$/,
    'client'
  ],
  [/^mcp$/, 'none'],
  [/^web_search/, 'web_search'],
  [/^file_search$/, 'file_search'],
  [/^code_interpreter$/, 'code_interpreter']
]

/** https://platform.claude.com/docs/en/agents-and-tools/tool-use/overview; the types end with a date. */
const messagesKinds: readonly (readonly [RegExp, Kind])[] = [
  [/^(custom$|bash_|text_editor_|computer_|memory_)/, 'client'],
  [/^(web_fetch_|tool_search_tool_|mcp_toolset$)/, 'none'],
  [/^web_search_/, 'web_search'],
  [/^code_execution_/, 'code_interpreter']
]

/** https://ai.google.dev/gemini-api/docs/tools: a tool is known by its member, in either spelling. */
const geminiKinds: readonly (readonly [RegExp, Kind])[] = [
  [/^(functionDeclarations|function_declarations|computerUse|computer_use)$/, 'client'],
  [/^(urlContext|url_context|codeExecution|code_execution|fileSearch|file_search|mcpServers|mcp_servers)$/, 'none'],
  [/^(google|enterprise)/, 'web_search']
]

/** OpenAI's Responses: one limit for all calls, and each call is an item of the answer. */
export const responsesTools: HostedTools = {
  offered: (request) => offered(request, (tool) => toolOf(tool.types, responsesKinds), 1),
  limit(body, calls) {
    body.set('max_tool_calls', calls)
    return undefined
  },
  adds: 'max_tool_calls',
  counting: () => new ItemTally()
}

/** OpenAI's chat completions: a search model searches once for each request with `web_search_options`. */
export const chatTools: HostedTools = {
  offered: (request) =>
    request.type('web_search_options') === 'object'
      ? new ToolSearch(
          Buffer.alloc(0),
          () => {},
          () => ({ tools: { fees: ['web_search'], calls: 1, open: 0 } })
        )
      : undefined,
  counting: () => ({ see: () => {}, read: () => ({ web_search: 1 }) })
}

/** Anthropic's Messages: each tool has its own limit. */
export const messagesTools: HostedTools = {
  offered: (request) =>
    offered(request, (tool) => {
      const found = toolOf(tool.types, messagesKinds)
      return found && { ...found, uses: usesOf(tool) }
    }),
  limit(body, calls) {
    const list = body.raw('tools')
    if (!list) return undefined
    const pieces: Buffer[] = []
    let written = 0
    const see = (tool: ListedTool): void => {
      if (!toolOf(tool.types, messagesKinds) || usesOf(tool) !== undefined) return
      // A limit that says nothing, such as null, is replaced.
      const { uses, end } = tool
      pieces.push(list.subarray(written, uses?.from ?? end), Buffer.from(uses ? String(calls) : `,"max_uses":${calls}`))
      written = uses?.to ?? end
    }
    return new ToolSearch(list, see, () => {
      if (pieces.length > 0) body.setRaw('tools', Buffer.concat([...pieces, list.subarray(written)]).toString())
      return true
    })
  },
  counting: () => new ContainerTally()
}

/** Gemini: calls cannot be limited, and the answer lists the searches. */
export const geminiTools: HostedTools = {
  offered: (request) => offered(request, (tool) => toolOf(tool.names, geminiKinds)),
  counting: () => new GroundingTally()
}

/** A tool that runs at the upstream. */
interface HostedTool {
  readonly fees: readonly PricedClass[]
  /** How many limits it needs, and the one that it has. */
  readonly count: number
  readonly uses?: number | undefined
}

/** The hosted tools of a request. `limits`: how many limits there are for all of them; by default, one for each. */
function offered(
  request: Lens,
  hosted: (tool: ListedTool) => HostedTool | undefined,
  limits?: number
): ReturnType<HostedTools['offered']> {
  const list = request.type('tools') === 'array' ? request.slice('tools') : undefined
  if (!list) return undefined
  const fees = new Set<PricedClass>()
  let [found, calls, open] = [false, 0, 0]
  const see = (tool: ListedTool): void => {
    const own = hosted(tool)
    if (!own) return
    found = true
    for (const fee of own.fees) fees.add(fee)
    if (own.uses === undefined) open += own.count
    else calls += own.uses
  }
  return new ToolSearch(list, see, () => ({
    tools: found ? { fees: [...fees], calls, open: limits ?? open } : undefined
  }))
}

/** The tool that these words stand for, its types or the names of its members; undefined when the client runs it. */
function toolOf(words: readonly string[], kinds: readonly (readonly [RegExp, Kind])[]): HostedTool | undefined {
  const own = words.map((word) => kindOf(word, kinds)).filter((kind) => kind !== 'client')
  return own.length === 0 ? undefined : { fees: own.filter((kind) => kind !== 'none'), count: own.length }
}

/** The kind of a tool. An unknown one is charged as `tool_call`. */
function kindOf(name: string, kinds: readonly (readonly [RegExp, Kind])[]): Kind {
  return kinds.find(([pattern]) => pattern.test(name))?.[1] ?? 'tool_call'
}

/** The limit of a tool of Anthropic's; undefined when it has none, or one that is no number of calls. */
function usesOf({ uses }: ListedTool): number | undefined {
  const most = uses?.value
  return typeof most === 'number' && Number.isSafeInteger(most) && most >= 0 ? most : undefined
}

/** How the types of call items end. */
const call = '_call'

/** Counts the calls of hosted tools among the items of a response. */
class ItemTally implements Tally {
  readonly #usage: Partial<Usage> = {}
  readonly #list = new ListCount('output', (member, value) => {
    if (member === 'type' && value !== undefined) this.#add(value)
  })

  see(message: Payload): void {
    if (message.kind === 'json' || message.kind === 'bytes') this.#list.see(message.data)
    else if (message.data.includes('"response.output_item.done"')) {
      const { type, item } = asObject(message.json()) ?? {}
      if (type === 'response.output_item.done') this.#add(asText(asObject(item)?.['type']))
    }
  }

  read(): Partial<Usage> {
    return this.#usage
  }

  #add(type: string): void {
    addCall(this.#usage, type)
  }
}

/** The calls of hosted tools in the output of a response. */
export function callsIn(output: unknown): Partial<Usage> {
  const usage: Partial<Usage> = {}
  for (const { type } of asObjects(output)) addCall(usage, asText(type))
  return usage
}

function addCall(usage: Partial<Usage>, type: string): void {
  if (!type.endsWith(call)) return
  const kind = kindOf(type.slice(0, -call.length), responsesKinds)
  if (kind !== 'client' && kind !== 'none') usage[kind] = (usage[kind] ?? 0) + 1
}

/** Counts code execution, which is charged by the container: at most one for each answer. */
class ContainerTally implements Tally {
  #ran = false

  see(message: Payload): void {
    const { kind, data } = message
    if (this.#ran || !data.includes('"container"')) return
    const outer = kind === 'json' ? message.lens : (message.inside('message') ?? message.inside('delta'))
    if (kind === 'bytes' || outer?.type('container') === 'object') this.#ran = true
  }

  read(): Partial<Usage> {
    return this.#ran ? { code_interpreter: 1 } : {}
  }
}

/** Counts the searches that an answer is grounded on. In a stream the largest report counts. */
class GroundingTally implements Tally {
  #searches = 0

  see(message: Payload): void {
    if (!message.data.includes('"groundingMetadata"')) return
    // A body that comes in runs is not parsed, so one search is assumed.
    const candidates = message.kind === 'bytes' ? undefined : asObjects(asObject(message.json())?.['candidates'])
    const searches = (candidates ?? []).reduce((sum, candidate) => {
      const { webSearchQueries: queries } = asObject(candidate['groundingMetadata']) ?? {}
      return sum + (Array.isArray(queries) ? queries.length : 0)
    }, 0)
    this.#searches = Math.max(this.#searches, searches, candidates ? 0 : 1)
  }

  read(): Partial<Usage> {
    return this.#searches > 0 ? { web_search: this.#searches } : {}
  }
}
