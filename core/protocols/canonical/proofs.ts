// Signatures and encrypted thoughts on their way through a client of another protocol, and what is to be kept for one
// that has no place for them.
import type { AnswerEvent } from './answer.ts'
import { asObject, asObjects, asText } from '../object.ts'
import type { JsonObject } from '../object.ts'
import type { AssistantPart, Family, ModelRequest, Proof, ReasoningPart, ToolCall, Turn } from './request.ts'

/** Begins whatever the gateway put where a client's protocol has a signature of its own. */
const mark = 'sluice1.'

/**
 * A proof for a place where clients expect one of `family`: as it is, or wrapped so that it is known when it comes
 * back.
 */
export function seal(family: Family, proof: Proof | undefined): string {
  if (!proof) return mark
  if (proof.family === family) return proof.value
  const id = encodeURIComponent((proof.id ?? '').toWellFormed()).replaceAll('.', '%2E')
  return `${mark}${proof.family}.${proof.kind}.${id}.${proof.value}`
}

/** Thoughts as they stand on the call that they led to, for clients that give nothing else of them back. */
export function sealThoughts(thoughts: readonly KeptThought[]): string {
  return `${mark}thoughts.${JSON.stringify(thoughts)}`
}

/** The thoughts that stand on a call; none where something else does. */
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

/** What a client gave back from such a place. Undefined: nothing that proves anything. */
export function unseal(family: Family, value: string, kind: Proof['kind'] = 'signature'): Proof | undefined {
  if (!isSealed(value)) return value === '' ? undefined : { family, kind, value }
  const [owner = '', wrapped = '', id = '', ...rest] = value.slice(mark.length).split('.')
  const proof = rest.join('.')
  if (!isFamily(owner) || !isKind(wrapped) || proof === '') return undefined
  return { family: owner, kind: wrapped, value: proof, ...(id !== '' && { id: decode(id) }) }
}

/** The gateway made it, and no upstream may see it. */
export function isSealed(value: string): boolean {
  return value.startsWith(mark)
}

/**
 * Bytes that hold none of {@link mark}, in clear or in base64, hold nothing that the gateway sealed: nearly all bodies.
 */
export function mayBeSealed(body: Buffer): boolean {
  return body.includes(mark) || body.includes(markInBase64)
}

/** As many letters as do not depend on what follows. */
const markInBase64 = Buffer.from(mark).toString('base64').slice(0, 10)

function isFamily(word: string): word is Family {
  return word === 'openai' || word === 'anthropic' || word === 'gemini'
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
 * What has to be kept of an answer under the id of a call, scoped by tenant, for a client that cannot give it back: the
 * thoughts that led to the call, which its provider wants before it, and the call's own signature. Of answers without
 * calls nothing is kept, as no provider demands their thoughts. Plain data, to be stored as JSON.
 */
export interface Keepsake {
  thoughts: KeptThought[]
  proof?: Proof
}

/** `first`: before the model had said anything; its provider wants it at the beginning of the turn again. */
export type KeptThought = ReasoningPart & { first?: true }

/** What one candidate has said so far. */
interface Course {
  /** In order, until a call takes them. */
  pending: KeptThought[]
  spoke: boolean
}

/** Watches the events of one answer and collects what has to be kept. */
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

/**
 * Ids of the calls of a conversation that came back without any proof of `family`: what to look for among what was
 * kept.
 */
export function unproven(request: ModelRequest, family: Family): string[] {
  const ids: string[] = []
  for (const turn of request.turns) {
    if (turn.role !== 'assistant' || turn.parts.some((part) => proofOf(part)?.family === family)) continue
    for (const part of turn.parts) if (part.type === 'tool_call') ids.push(part.id)
  }
  return ids
}

/**
 * The request with what was kept put back, by the ids of calls: thoughts where they were, a signature onto its call.
 * What the client has of the same thoughts makes way for them. Proofs of another family stay away.
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
