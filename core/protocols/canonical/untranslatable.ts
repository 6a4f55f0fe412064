// The one thing that translation throws.

/**
 * Codes of the gateway's table of errors: the first three are the client's to mend, the last is the upstream's fault.
 */
export type UntranslatableCode =
  | 'unsupported_parameter'
  | 'invalid_field'
  | 'missing_field'
  | 'protocol_mismatch'
  | 'upstream_bad_response'

/**
 * What cannot be said in the other protocol, or is not of the protocol it came in. Its message may be shown to clients.
 */
export class Untranslatable extends Error {
  readonly code: UntranslatableCode
  /** The member of the client's request at fault, as `messages[2].content[0].image_url`. */
  readonly param: string | undefined

  constructor(code: UntranslatableCode, message: string, param?: string) {
    super(message)
    this.name = 'Untranslatable'
    this.code = code
    this.param = param
  }
}

/** A member that is not what its protocol says it is. */
export function invalid(param: string, expected: string): Untranslatable {
  return new Untranslatable('invalid_field', `${param} must be ${expected}.`, param)
}

/** Something of an upstream's answer that is not what its protocol says it is. */
export function badAnswer(message: string): Untranslatable {
  return new Untranslatable('upstream_bad_response', message)
}
