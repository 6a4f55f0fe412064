// Carries signatures and encrypted thoughts through clients of other protocols, and keeps those that such a client has
// no place for.
import type { AnswerEvent } from './answer.ts'
import { asObject, asObjects, asText } from '../object.ts'
import type { JsonObject } from '../object.ts'
import type { AssistantPart, Family, ModelRequest, Proof, ReasoningPart, ToolCall, Turn } from './request.ts'

/** The beginning of everything that the gateway puts in place of a signature. */
const mark = 'sluice1.'

/**
 * A proof in the place where clients expect one of `family`: unchanged if it is of that family, else wrapped, so that
 * it is recognized when it comes back.
 */
export function seal(family: Family, proof: Proof | undefined): string {
  if (!proof) return mark
  if (proof.family === family) return proof.value
  const id = encodeURIComponent((proof.id ?? '').toWellFormed()).replaceAll('.', '%2E')
  return `${mark}${proof.family}.${proof.kind}.${id}.${proof.value}`
}

/**
 * Thoughts in the form in which they are put on the call that they led to, for clients that send back nothing else of
 * them.
 */
export function sealThoughts(thoughts: readonly KeptThought[]): string {
  return `${mark}thoughts.${JSON.stringify(thoughts)}`
}

/** The thoughts that were put on a call; none when the value is something else. */
export function unsealThoughts(value: string): KeptThought[] {
  const begin = `${mark}thoughts.`
  if (!value.startsWith(begin)) return []
  try {
    const thoughts = JSON.parse(value.slice(begin.length)) as unknown
    return asObjects(thoughts).flatMap(({ text, proof, first }): KeptThought[] => {
      const known = readProof(asObject(proof))
      if (typeof text !== 'string' || !known) return []
      return [{ type: 'reasoning', text, proof: known, ...(first === true && { first }) }]
    })
  } catch {
    return []
  }
}

function readProof(given: JsonObject | undefined): Proof | undefined {
  const [family, kind, value, id] = ['family', 'kind', 'value', 'id'].map((key) => asText(given?.[key]))
  if (!isFamily(family!) || !isKind(kind!) || value === '') return undefined
  return { family, kind, value: value!, ...(id !== '' && { id: id! }) }
}

/** The proof in what a client sent back. Undefined when it proves nothing. */
export function unseal(family: Family, value: string, kind: Proof['kind'] = 'signature'): Proof | undefined {
  if (!isSealed(value)) return value === '' ? undefined : { family, kind, value }
  const [owner = '', wrapped = '', id = '', ...rest] = value.slice(mark.length).split('.')
  const proof = rest.join('.')
  if (!isFamily(owner) || !isKind(wrapped) || proof === '') return undefined
  return { family: owner, kind: wrapped, value: proof, ...(id !== '' && { id: decode(id) }) }
}

/** Whether the gateway made the value. No upstream may be sent it. */
export function isSealed(value: string): boolean {
  return value.startsWith(mark)
}

/** The members in which a request that is passed on may bring something sealed back: see `withoutSealed` of a codec. */
export const sealedMembers = ['signature', 'data', 'thoughtSignature', 'encrypted_content'] as const

/**
 * Whether a body may hold something that the gateway sealed: {@link mark} as it is, or in base64. Nearly no body does.
 */
export function mayBeSealed(body: Buffer): boolean {
  return (body.includes(markEnd) && body.includes(mark)) || body.includes(markInBase64)
}

/** Words do not have it in them, so that it is looked for in less time than the whole mark. */
const markEnd = Buffer.from(mark.slice(-2))
/** Likewise from its first digit on, and without the last characters, which depend on what follows the mark. */
const markInBase64 = Buffer.from(Buffer.from(mark).toString('base64').slice(1, 7))

function isFamily(word: string): word is Family {
  return word === 'openai' || word === 'anthropic' || word === 'gemini' || word === 'bedrock'
}

function isKind(word: string): word is Proof['kind'] {
  return word === 'signature' || word === 'call' || word === 'redacted' || word === 'encrypted'
}

function decode(id: string): string {
  try {
    return decodeURIComponent(id)
  } catch {
    return id
  }
}

/**
 * What is kept of an answer under a call's id, for each tenant, when the client cannot send it back: the thoughts that
 * led to the call, which the provider requires before it, and the call's own signature. Nothing is kept of answers
 * without calls, as no provider requires their thoughts. Plain data, stored as JSON.
 */
export interface Keepsake {
  thoughts: KeptThought[]
  proof?: Proof
}

/** `first`: the thought came before any speech or call, and has to be put at the beginning of the turn again. */
export type KeptThought = ReasoningPart & { first?: true }

/** The course of one candidate so far. */
interface Course {
  /** Thoughts in order that no call has taken yet. */
  pending: KeptThought[]
  spoke: boolean
}

/** Observes the events of one answer and collects what has to be kept. */
export class Keeper {
  readonly #thoughts = new Map<number, { course: Course; thought: KeptThought }>()
  readonly #courses = new Map<number, Course>()
  readonly kept = new Map<string, Keepsake>()

  see(event: AnswerEvent): void {
    if (event.type === 'open') {
      const { opening, part, candidate } = event
      const course = this.#course(candidate)
      if (opening.type === 'reasoning')
        this.#thoughts.set(part, {
          course,
          thought: { type: 'reasoning', text: '', ...(!course.spoke && { first: true }) }
        })
      else course.spoke = true
      if (opening.type === 'tool_call') this.#keep(opening.id, course, opening.proof)
    } else if (event.type === 'delta') {
      const found = this.#thoughts.get(event.part)
      if (found) found.thought.text += event.text
    } else if (event.type === 'close') {
      const found = this.#thoughts.get(event.part)
      if (found && event.proof) found.course.pending.push({ ...found.thought, proof: event.proof })
      this.#thoughts.delete(event.part)
    }
  }

  #course(candidate: number): Course {
    let course = this.#courses.get(candidate)
    if (!course) this.#courses.set(candidate, (course = { pending: [], spoke: false }))
    return course
  }

  #keep(id: string, course: Course, proof: Proof | undefined): void {
    if (course.pending.length === 0 && !proof) return
    this.kept.set(id, { thoughts: course.pending, ...(proof && { proof }) })
    course.pending = []
  }
}

/** The ids of a conversation's calls in turns without any proof of `family`: something may have been kept for them. */
export function unproven(request: ModelRequest, family: Family): string[] {
  const ids: string[] = []
  for (const turn of request.turns) {
    if (turn.role !== 'assistant' || turn.parts.some((part) => proofOf(part)?.family === family)) continue
    for (const part of turn.parts) if (part.type === 'tool_call') ids.push(part.id)
  }
  return ids
}

/**
 * Puts kept proofs back into a request, by the ids of calls: thoughts at their old places, and signatures on their
 * calls. They replace what the client has of the same thoughts. Proofs of other families are left out.
 */
export function restore(request: ModelRequest, kept: ReadonlyMap<string, Keepsake>, family: Family): ModelRequest {
  const wanted = new Set(unproven(request, family))
  const turns = request.turns.map((turn): Turn => {
    if (turn.role !== 'assistant') return turn
    const first: AssistantPart[] = []
    const parts = turn.parts.flatMap((part): AssistantPart[] => {
      const keepsake = part.type === 'tool_call' && wanted.has(part.id) ? kept.get(part.id) : undefined
      if (!keepsake) return [part]
      const before: AssistantPart[] = []
      for (const { first: leads, ...thought } of keepsake.thoughts)
        if (thought.proof?.family === family) (leads ? first : before).push(thought)
      return [...before, keepsake.proof?.family === family ? { ...(part as ToolCall), proof: keepsake.proof } : part]
    })
    const found = first.length > 0 || parts.length > turn.parts.length
    return {
      role: 'assistant',
      parts: [...first, ...(found ? parts.filter((part) => part.type !== 'reasoning' || part.proof) : parts)]
    }
  })
  return { ...request, turns }
}

function proofOf(part: AssistantPart): Proof | undefined {
  return 'proof' in part ? part.proof : undefined
}
