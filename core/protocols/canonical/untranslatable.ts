// The error that translation throws.

/**
 * Codes of the gateway's table of errors. All but the last two are for the client to fix. `upstream_bad_response` is
 * the upstream's fault, and `answer_too_large` nobody's.
 */
export type UntranslatableCode =
  | 'unsupported_parameter'
  | 'invalid_field'
  | 'missing_field'
  | 'protocol_mismatch'
  | 'upstream_bad_response'
  | 'answer_too_large'

/** Something cannot be expressed in the other protocol, or violates its own. The message may be shown to clients. */
export class Untranslatable extends Error {
  readonly code: UntranslatableCode
  /** The member of the client's request at fault, such as `messages[2].content[0].image_url`. */
  readonly param: string | undefined

  constructor(code: UntranslatableCode, message: string, param?: string) {
    super(message)
    this.name = 'Untranslatable'
    this.code = code
    this.param = param
  }
}

/** The error for a member that is not what its protocol requires. */
export function invalid(param: string, expected: string): Untranslatable {
  return new Untranslatable('invalid_field', `${param} must be ${expected}.`, param)
}

/** The error for an upstream's answer that is not what its protocol requires. */
export function badAnswer(message: string): Untranslatable {
  return new Untranslatable('upstream_bad_response', message)
}

/** The error for an answer that obeys its protocol and exceeds a bound of the gateway. It is not asked for again. */
export function tooLarge(message: string): Untranslatable {
  return new Untranslatable('answer_too_large', message)
}
