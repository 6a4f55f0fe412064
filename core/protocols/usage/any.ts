// Reads usage from upstreams that may report it in the form of another family.
import { pricedClasses } from '../../money/classes.ts'
import { promptTokens } from '../../money/usage.ts'
import type { Usage } from '../../money/usage.ts'
import { asObject } from '../object.ts'
import type { JsonObject } from '../object.ts'
import type { ReportedUsage } from '../protocol.ts'
import type { Trust } from './account.ts'
import { readAnthropicUsage } from './anthropic.ts'
import { readGeminiUsage } from './gemini.ts'
import { readChatUsage } from './openai-chat.ts'
import { readResponsesUsage } from './openai-tokens.ts'

/**
 * Reads a usage object in the forms that it has members of. Relays may fill in a second form with zeros or copies: then
 * all forms must agree on prompt and output, or the total must show which is right. Otherwise the usage is `insane`.
 */
export function readAnyUsage(value: unknown): ReportedUsage {
  const usage = asObject(value)
  if (!usage) return undefined
  const readings: Usage[] = []
  const readers = readersOf(usage)
  for (const read of readers) {
    const reading = read(usage, readers.length > 1 ? 'disputed' : 'trusted')
    if (reading === 'insane') return 'insane'
    if (reading) readings.push(reading)
  }
  if (readings.length < 2 || agreed(readings)) return readings[0]
  const total = usage['total_tokens'] ?? usage['totalTokenCount']
  // A total of zero decides nothing, as real counts would become free.
  const right = total === 0 ? [] : readings.filter((reading) => tokens(reading) === total)
  return right.length > 0 && agreed(right) ? right[0] : 'insane'
}

type Reader = (value: unknown, total: Trust) => ReportedUsage

function readersOf(usage: JsonObject): readonly Reader[] {
  const readers: Reader[] = []
  if (has(usage, 'prompt_tokens') || has(usage, 'completion_tokens')) readers.push(readChatUsage)
  if (has(usage, 'input_tokens') || has(usage, 'output_tokens')) {
    // Two families use these names. In one, the input includes cached tokens; in the other it does not.
    const beside =
      has(usage, 'cache_read_input_tokens') || has(usage, 'cache_creation_input_tokens') || has(usage, 'cache_creation')
    const inside = has(usage, 'total_tokens') || has(usage, 'input_tokens_details') || has(usage, 'input_token_details')
    if (beside) readers.push(readAnthropicUsage)
    if (inside || !beside) readers.push(readResponsesUsage)
  }
  if (has(usage, 'promptTokenCount') || has(usage, 'candidatesTokenCount')) readers.push(readGeminiUsage)
  return readers
}

function has(usage: JsonObject, name: string): boolean {
  return usage[name] !== undefined && usage[name] !== null
}

function agreed([first, ...others]: readonly Usage[]): boolean {
  return others.every((other) => promptTokens(other) === promptTokens(first!) && tokens(other) === tokens(first!))
}

/** The sum of prompt and output. No reader used here counts anything else. */
function tokens(usage: Usage): number {
  return pricedClasses.reduce((sum, name) => sum + (usage[name] ?? 0), 0)
}
