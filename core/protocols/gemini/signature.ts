// Reads and writes the signatures of thoughts, which are base64 in Gemini's protocol.
import { readText, writeText } from '../canonical/media.ts'
import { isSealed, seal, sealThoughts, unseal, unsealThoughts } from '../canonical/proofs.ts'
import type { KeptThought } from '../canonical/proofs.ts'
import type { Proof } from '../canonical/request.ts'

/**
 * The value that the vendor accepts in place of a lost signature,
 * https://ai.google.dev/gemini-api/docs/thought-signatures
 */
export const noSignature = 'skip_thought_signature_validator'

/** The proof in a signature that a client sent back. The gateway's own are in base64 too, as clients may check that. */
export function readSignature(signature: string, kind: 'signature' | 'call'): Proof | undefined {
  if (signature === noSignature) return undefined
  const text = readText(signature)
  return isSealed(text) ? unseal('gemini', text) : unseal('gemini', signature, kind)
}

/** The thoughts of another provider's model that were put in place of a call's signature. */
export function readThoughts(signature: string): KeptThought[] {
  return unsealThoughts(readText(signature))
}

/**
 * The value for a call's signature: its own, or else the thoughts before it, as clients do not send back thoughts.
 * Undefined when there is neither.
 */
export function writeCallSignature(own: Proof | undefined, thoughts: readonly KeptThought[]): string | undefined {
  if (own) return writeSignature(own)
  return thoughts.length > 0 ? writeText(sealThoughts(thoughts)) : undefined
}

export function writeSignature(proof: Proof): string {
  return proof.family === 'gemini' ? proof.value : writeText(seal('gemini', proof))
}
