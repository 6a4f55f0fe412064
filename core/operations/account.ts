// Requests that refer to something that one account of an upstream keeps and that was not made through the gateway:
// containers, threads, cached contents.
import { accountOf, byAccount } from '../catalogue/account.ts'
import type { Fields } from '../bodies/fields.ts'
import { GatewayError } from '../contract/contract.ts'
import type { ErrorCode } from '../errors.ts'
import { formFor } from '../contract/operation.ts'
import type { ServedOperation } from '../contract/served.ts'

/** A member of a request that may refer to something that an account keeps. */
interface Referring {
  readonly param: string
  /** The error code of a refusal. SDKs that know the code may send the request again without the member. */
  readonly code: ErrorCode
  /** Whether the value refers to something. It is never null. An object may ask for a new thing instead. */
  readonly refers: (value: unknown) => boolean
}

/** The longest value that is parsed, in bytes. A longer value counts as a reference. */
const longest = 4096

/**
 * Makes an `onCandidates` for requests that have one of these members. Such a request goes only to channels of the
 * client's own protocol. It is refused when those channels belong to several accounts: nobody knows which account keeps
 * what is meant, and the others would answer without it or blame the client.
 */
export function toAccount(referring: readonly Referring[]): NonNullable<ServedOperation['onCandidates']> {
  return (exchange, candidates) => {
    const {
      body: { fields },
      request: { operation }
    } = exchange
    const found = referring.find((one) => isThere(fields, one))
    if (!found) return
    const native = candidates.channels.filter((channel) => formFor(operation, channel)!.protocol === operation.protocol)
    // Without a native channel, translation decides, and it has its own errors for what it cannot express.
    if (native.length === 0) return
    if (new Set(native.flatMap(byAccount).map(accountOf)).size > 1) {
      const { code, param } = found
      throw new GatewayError(
        code,
        `\`${param}\` refers to what one account of an upstream keeps, and the model \`${exchange.model}\` is served by several: send the conversation itself, or ask for a model of one account.`,
        {
          param,
          reason: {
            by: 'reference',
            what: `${param} is kept at one account, and the channels of the model are of several`,
            where: `models.${exchange.model}`,
            remedy: 'offer the model of each account under a name of its own'
          }
        }
      )
    }
    candidates.bind((channel) => native.includes(channel))
  }
}

function isThere(fields: Fields, { param, refers }: Referring): boolean {
  if (!fields.has(param)) return false
  if (fields.size(param) > longest) return true
  const value = fields.json(param)
  return value !== null && refers(value)
}

/** Whether a value names something: an id as a string, or an object with an `id`. */
export function namesOne(value: unknown): boolean {
  return typeof value === 'string' || (typeof value === 'object' && value !== null && 'id' in value && value.id != null)
}
