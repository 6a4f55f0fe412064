// Helpers for encoders of conversations: joining texts, checking that calls have results, and moving media.
import type { AssistantPart, MediaPart, ModelRequest, SystemTurn, TextPart, ToolResult, Turn } from './request.ts'
import type { Losses } from './losses.ts'
import { Untranslatable } from './untranslatable.ts'

/** Joins texts that the client sent separately into one, with blank lines in between. Empty ones are left out. */
export function joinTexts(parts: readonly { type: string; text?: string }[]): string {
  return parts
    .flatMap(({ type, text }) => (type === 'text' && text !== undefined && text !== '' ? [text] : []))
    .join('\n\n')
}

/** Tells the model to reply in JSON, where a protocol has no member for that. */
export const jsonOnly = 'Reply with a JSON object only, and no text around it.'

/** The turns, with the word JSON in them when JSON output is asked for: OpenAI refuses the request otherwise. */
export function sayingJson({ turns, format }: ModelRequest): readonly Turn[] {
  if (format?.type !== 'json_object' || turns.some(saysJson)) return turns
  return [{ role: 'system', parts: [{ type: 'text', text: jsonOnly }], developer: false }, ...turns]
}

function saysJson(turn: Turn): boolean {
  const parts = turn.role === 'tool' ? turn.results.flatMap((result) => result.parts) : turn.parts
  return parts.some((part) => part.type === 'text' && /json/i.test(part.text))
}

/** Whether a text has nothing but white space, zero-width characters included: some upstreams refuse it as empty. */
export function isBlank(text: string): boolean {
  return !/[^\s\u200b-\u200d\u2060\ufeff]/.test(text)
}

/** Tells instructions at the front of a conversation that is being read, however many, from later ones. */
export class Front {
  #seen = 0

  /** Whether all turns that were read so far are instructions. Those that were seen are not looked at again. */
  has(turns: readonly Turn[]): boolean {
    while (turns[this.#seen]?.role === 'system') this.#seen++
    return this.#seen === turns.length
  }
}

/** Splits off the system turns at the beginning. */
export function leadingSystem({ turns }: ModelRequest): { system: SystemTurn[]; rest: Turn[] } {
  const end = turns.findIndex((turn) => turn.role !== 'system')
  const count = end === -1 ? turns.length : end
  return { system: turns.slice(0, count) as SystemTurn[], rest: turns.slice(count) }
}

/**
 * Refuses a conversation whose calls and results do not match: a result without its call before it, or a call that the
 * next turn does not answer. All upstreams refuse that, each with another error. `place`: the member that holds the
 * conversation.
 */
export function checkCalls({ turns }: ModelRequest, place: string): void {
  /** How many calls with an id wait for their results. */
  const open = new Map<string, number>()
  for (const turn of turns) {
    if (turn.role === 'tool') {
      for (const { id } of turn.results) {
        const count = open.get(id)
        if (count === 1) open.delete(id)
        else if (count) open.set(id, count - 1)
        else
          throw new Untranslatable(
            'invalid_field',
            `${place} has a result of the call ${shown(id)}, which is not made right before it.`,
            place
          )
      }
    }
    const [waiting] = open.keys()
    if (waiting !== undefined) throw unanswered(waiting, place)
    if (turn.role !== 'assistant') continue
    for (const part of turn.parts) if (part.type === 'tool_call') open.set(part.id, (open.get(part.id) ?? 0) + 1)
  }
  const [last] = open.keys()
  if (last !== undefined) throw unanswered(last, place)
}

function unanswered(id: string, place: string): Untranslatable {
  return new Untranslatable('invalid_field', `${place} has a call ${shown(id)} without a result right after it.`, place)
}

/** Refuses a forced call in a request without tools. All upstreams refuse that, and some protocols would drop it. */
export function checkChoice({ tools, toolChoice }: ModelRequest, losses: Losses): void {
  if (tools.length > 0 || (toolChoice?.mode !== 'required' && toolChoice?.mode !== 'named')) return
  const place = losses.placeOf('tool_choice')
  throw new Untranslatable('invalid_field', `${place} demands a call, and the request has no tools.`, place)
}

function shown(id: string): string {
  return JSON.stringify(id.slice(0, 64))
}

const goOn =
  'Go on with your last message from exactly where it ends. Repeat nothing of it, and say nothing before you go on.'

/** Whether the conversation ends with a turn of the model, to be continued. */
export function endsPartially({ turns }: ModelRequest): boolean {
  return turns.at(-1)?.role === 'assistant'
}

/**
 * For models that cannot continue their own turn: a conversation that ends with one gets a user turn that asks the
 * model to go on. An empty last turn is left out.
 */
export function withLastWord(request: ModelRequest): ModelRequest {
  const last = request.turns.at(-1)
  if (last?.role !== 'assistant') return request
  const said = last.parts.some((part) => part.type !== 'reasoning' && !('text' in part && isBlank(part.text)))
  if (!said) return { ...request, turns: request.turns.slice(0, -1) }
  return { ...request, turns: [...request.turns, { role: 'user', parts: [{ type: 'text', text: goOn }] }] }
}

/** Whose pictures and documents a protocol has no place for: those in tool results, and those that the model made. */
export interface Placeless {
  results: boolean
  own: boolean
}

/**
 * Moves media that the protocol has no place for into the next user turn, after a line that says whose they are.
 * Results that are left without text say where to look.
 */
export function mediaToUser(turns: readonly Turn[], placeless: Placeless): Turn[] {
  const made: Turn[] = []
  let media: (TextPart | MediaPart)[] = []
  const take = (whose: string, parts: readonly AnyPart[]): void => {
    const own = parts.filter(isMedia)
    if (own.length > 0) media.push({ type: 'text', text: `${whose}:` }, ...own)
  }
  for (const turn of turns) {
    if (media.length > 0 && turn.role !== 'tool') {
      made.push({ role: 'user', parts: turn.role === 'user' ? [...media, ...turn.parts] : media })
      media = []
      if (turn.role === 'user') continue
    }
    if (turn.role === 'tool' && placeless.results) {
      made.push({ role: 'tool', results: turn.results.map(withoutMedia) })
      for (const { id, name, parts } of turn.results) take(`Of the result of ${name || 'the call'} (${id})`, parts)
    } else if (turn.role === 'assistant' && placeless.own && turn.parts.some(isMedia)) {
      made.push({ role: 'assistant', parts: turn.parts.filter((part) => !isMedia(part)) })
      take("Of the assistant's answer", turn.parts)
    } else made.push(turn)
  }
  if (media.length > 0) made.push({ role: 'user', parts: media })
  return made
}

type AnyPart = TextPart | MediaPart | AssistantPart

function isMedia(part: AnyPart): part is MediaPart {
  return 'source' in part
}

function withoutMedia(result: ToolResult): ToolResult {
  const texts = result.parts.filter((part) => part.type === 'text')
  const moved = texts.length === 0 && result.parts.length > 0
  return { ...result, parts: moved ? [{ type: 'text', text: 'The result follows in the next message.' }] : texts }
}

/** The text of a tool result. That of a failed tool says so. */
export function resultText({ parts, error }: ToolResult): string {
  const text = joinTexts(parts)
  return error ? `Error: ${text}` : text
}

/** All that the model said of one type. Its pieces are joined without a separator. */
export function spoken(parts: readonly AssistantPart[], type: 'text' | 'refusal' | 'reasoning' = 'text'): string {
  let text = ''
  for (const part of parts) if (part.type === type) text += part.text
  return text
}
