// Writes answers that read like prose and say that they are simulated.
import { countTokens, splitTokens } from './tokens.ts'

/** Pseudo-random numbers that depend only on the seed (mulberry32). */
export class Dice {
  #state: number

  constructor(seed: number) {
    this.#state = seed >>> 0
  }

  /** An integer from 0 to `sides - 1`. */
  below(sides: number): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0
    let t = this.#state
    t = Math.imul(t ^ (t >>> 15), t | 1)
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61)
    return ((t ^ (t >>> 14)) >>> 0) % sides
  }

  /** One element of a list. */
  pick<T>(from: readonly T[]): T {
    return from[this.below(from.length)]!
  }
}

const sentences = [
  'The same request always gets the same answer, down to the last byte.',
  'Every word of it travels over real HTTP on the loopback interface.',
  'Its tokens are counted by a rule that fits in one sentence, so a bill can be checked by hand.',
  'A directive in the prompt sets the length, the pace and the faults.',
  'Nothing here leaves this machine, and nothing here costs real money.',
  'A stream arrives token by token, with a pause in between when one is asked for.',
  'When the client leaves, the simulator stops writing and counts an aborted answer.',
  'Point the channel at a real upstream, and only the text will change.',
  'Characters beyond ASCII travel along: naïve, façade, 漢字, and one small 🛶.',
  'Line breaks do too:\n\n- one item\n- and another\n\nwhich is all there is to the list.',
  'A cut answer is never dressed up as a complete one, here or behind the gateway.',
  'Tools can be called, JSON can be asked for, and the usage at the end adds up.'
] as const

/** What the first sentence of an answer is about. */
export interface Subject {
  /** What the user wrote last. */
  prompt: string
  /** The result of a tool, if that came last. */
  toolResult: string | undefined
}

/** Text of exactly `tokens` tokens; of a few sentences when that is undefined. */
export function writeProse(dice: Dice, { prompt, toolResult }: Subject, tokens: number | undefined): string {
  const about = toolResult === undefined ? quote('You wrote', prompt) : quote('The tool answered', toolResult)
  let text = `This is the Sluice simulator, not a model.${about}`
  let length = countTokens(text)
  const wanted = tokens ?? length + 20 + dice.below(60)
  // The stride has no common divisor with the number of sentences, so all of them come before one is repeated.
  for (let i = dice.below(sentences.length); length < wanted; i += 5) {
    const sentence = ` ${sentences[i % sentences.length]!}`
    text += sentence
    length += countTokens(sentence)
  }
  return tokens === undefined ? text : splitTokens(text).slice(0, tokens).join('')
}

function quote(verb: string, source: string): string {
  const words = source
    .slice(0, 200)
    .split(/\s+/)
    .filter((word) => word !== '')
  if (words.length === 0) return ''
  const shown = words.slice(0, 12).join(' ').replaceAll('"', "'")
  return ` ${verb} "${shown}${words.length > 12 ? ' …' : ''}".`
}
