// Reads what a usual record is found and summed by from its text, in half of the time that parsing takes: the thread
// that writes does so for every request.
import type { RecordGist } from '../../requests.ts'

const text = String.raw`"(?:[^"\\\x00-\x1f]*)"`
const number = String.raw`-?\d+(?:\.\d+)?(?:e[+-]?\d+)?`
/** What is in parentheses is read. */
const readText = String.raw`"([^"\\\x00-\x1f]*)"`
const readNumber = `(${number})`
const orNull = (pattern: string): string => `(?:${pattern}|null)`

/** The members of a usual record in their order, each as its text. */
const members: readonly (readonly [name: string, pattern: string])[] = [
  ['project', orNull(readText)],
  ['member', orNull(readText)],
  ['requested_model', orNull(text)],
  ['endpoint', readText],
  ['client_protocol', orNull(text)],
  ['channel', orNull(readText)],
  ['channel_protocol', orNull(text)],
  ['status', readNumber],
  ['error_code', orNull(readText)],
  ['outcome', readText],
  ['streamed', '(?:true|false)'],
  ['usage', orNull(String.raw`\[${readNumber},${readNumber},${readNumber},${readNumber},${orNull(number)}\]`)],
  ['usage_source', orNull(text)],
  ['cost_nano', String.raw`"(-?\d+)"`],
  ['price_version', orNull(text)],
  ['reserved_nano', orNull(text)],
  // One attempt, without an object of what else it has.
  ['attempts', String.raw`\[(?:\[${readText},[^\]"{]*\])?\]`],
  ['first_byte_ms', orNull(readNumber)],
  ['duration_ms', readNumber],
  ['client_request_id', orNull(text)],
  // It is the last one, where no object of other members is behind it.
  ['times', orNull(String.raw`\[[^]*\]`)]
]

const usual = new RegExp(`^\\[${members.map(([, pattern]) => pattern).join(',')}\\]$`)

/** Returns undefined for the text of any other record, which may be one that it could read. */
export function usualGist(json: string): RecordGist | undefined {
  const found = usual.exec(json)
  if (!found) return undefined
  // A group that has matched nothing is undefined.
  return {
    project: found[1] ?? null,
    member: found[2] ?? null,
    endpoint: found[3]! as RecordGist['endpoint'],
    channel: found[4] ?? null,
    status: Number(found[5]),
    error_code: (found[6] ?? null) as RecordGist['error_code'],
    outcome: found[7]! as RecordGist['outcome'],
    cost_nano: found[12]!,
    first_byte_ms: numberIn(found[14]),
    duration_ms: Number(found[15]),
    usage:
      found[8] === undefined
        ? null
        : {
            input: Number(found[8]),
            cached_input: Number(found[9]),
            cache_write: Number(found[10]),
            output: Number(found[11])
          },
    attempts: found[13] === undefined ? [] : [{ channel: found[13] }]
  }
}

function numberIn(found: string | undefined): number | null {
  return found === undefined ? null : Number(found)
}
