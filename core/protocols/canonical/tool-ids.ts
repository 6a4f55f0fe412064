// Makes the ids of calls unique, and such that an upstream accepts them.
import type { EmitEvent } from './answer.ts'
import { digest } from './digest.ts'
import type { ModelRequest, ToolCall, ToolResult, Turn } from './request.ts'

/** The call ids that a protocol accepts. */
export interface IdRule {
  /** Matches every character that is not allowed, with the flag `g`. Absent: all are allowed. */
  readonly illegal?: RegExp
  readonly longest: number
}

/** Replaces an empty id. */
const nameless = 'call'

/**
 * The request with ids that the upstream accepts. Clients repeat ids between turns and within one, as some models just
 * number their calls; a result then belongs to the first call with its id that has none yet. The same ids in the same
 * order always give the same result.
 */
export function withLegalIds(request: ModelRequest, rule: IdRule): ModelRequest {
  const taken = new Map<string, number>()
  /** Calls of the model's last turn without a result, by the client's id. */
  let open = new Map<string, ToolCall[]>()
  const call = (part: ToolCall): ToolCall => {
    const id = own(part.id, rule, taken)
    const made = id === part.id ? part : { ...part, id }
    const same = open.get(part.id)
    if (same) same.push(made)
    else open.set(part.id, [made])
    return made
  }
  const result = (given: ToolResult): ToolResult => {
    const of = open.get(given.id)?.shift()
    return !of || (of.id === given.id && of.name === given.name)
      ? given
      : {
          ...given,
          id: of.id,
          name: of.name,
          custom: of.custom,
          ...(of.namespace !== undefined && { namespace: of.namespace })
        }
  }
  const turns = request.turns.map((turn): Turn => {
    if (turn.role === 'tool') return { role: 'tool', results: turn.results.map(result) }
    if (turn.role !== 'assistant') return turn
    open = new Map()
    return { role: 'assistant', parts: turn.parts.map((part) => (part.type === 'tool_call' ? call(part) : part)) }
  })
  return { ...request, turns }
}

/** Passes events on, with a unique id for each call of the answer: some upstreams give several calls the same. */
export function withOwnIds(emit: EmitEvent): EmitEvent {
  const taken = new Map<string, number>()
  return (event) => {
    if (event.type !== 'open' || event.opening.type !== 'tool_call') return emit(event)
    const { opening } = event
    const id = own(opening.id, anything, taken)
    emit(id === opening.id ? event : { ...event, opening: { ...opening, id } })
  }
}

const anything: IdRule = { longest: Infinity }

/**
 * A unique, accepted id. `taken`: the ids so far, each with the last number that was appended, so that a free one is
 * found quickly.
 */
function own(given: string, { illegal, longest }: IdRule, taken: Map<string, number>): string {
  const legal = (illegal ? given.replace(illegal, '_') : given) || nameless
  const base = legal.length <= longest ? legal : shortened(legal, `_${digest(given)}`, longest)
  let id = base
  let asked = taken.get(base) ?? 1
  while (taken.has(id)) id = shortened(base, `_${++asked}`, longest)
  taken.set(id, 1)
  taken.set(base, asked)
  return id
}

function shortened(text: string, tail: string, longest: number): string {
  return `${text.slice(0, longest - tail.length)}${tail}`
}
