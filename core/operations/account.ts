// What clients refer to that one account of an upstream keeps, and that the gateway has not seen being made:
// containers, threads, cached contents.
import { accountOf } from '../catalogue/account.ts'
import type { Fields } from '../bodies/fields.ts'
import { GatewayError } from '../contract/contract.ts'
import type { ErrorCode } from '../errors.ts'
import { formFor } from '../contract/operation.ts'
import type { ServedOperation } from '../contract/served.ts'

/** A member of a request that may refer to such a thing. */
interface Referring {
  readonly param: string
  /** What a client is told whose own library does without it then. */
  readonly code: ErrorCode
  /** Whether the value, which is not null, refers to something: an object may ask for a new one. */
  readonly refers: (value: unknown) => boolean
}

/** Longest value that is looked into; a longer one is taken for a reference. */
const longest = 4096

/**
 * Sends a request with one of these members to channels of its own protocol, whose account has it, and refuses it where
 * they are of several accounts: nobody knows which of them, and the others would answer without it, or that the client
 * is wrong.
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
    // Translation has its own words for what it cannot say.
    if (native.length === 0) return
    if (new Set(native.map(accountOf)).size > 1) {
      const { code, param } = found
      throw new GatewayError(
        code,
        `\`${param}\` refers to what one account of an upstream keeps, and the model \`${exchange.model}\` is served by several: send the conversation itself, or ask for a model of one account.`,
        { param }
      )
    }
    candidates.keep((channel) => native.includes(channel))
  }
}

function isThere(fields: Fields, { param, refers }: Referring): boolean {
  if (!fields.has(param)) return false
  if (fields.size(param) > longest) return true
  const value = fields.json(param)
  return value !== null && refers(value)
}

/** It names something: an id, or an object that has one. */
export function namesOne(value: unknown): boolean {
  return typeof value === 'string' || (typeof value === 'object' && value !== null && 'id' in value && value.id != null)
}
