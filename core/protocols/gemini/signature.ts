// Signatures of thoughts, which Gemini has in base64.
import { readText, writeText } from '../canonical/media.ts'
import { isSealed, seal, sealThoughts, unseal, unsealThoughts } from '../canonical/proofs.ts'
import type { KeptThought } from '../canonical/proofs.ts'
import type { Proof } from '../canonical/request.ts'

/**
 * What the vendor takes in place of a signature that nobody has any more,
 * https://ai.google.dev/gemini-api/docs/thought-signatures
 */
export const noSignature = 'skip_thought_signature_validator'

/** What a client gave back; the gateway's own are in base64 too, as clients may check that they are. */
export function readSignature(signature: string, kind: 'signature' | 'call'): Proof | undefined {
  if (signature === noSignature) return undefined
  const text = readText(signature)
  return isSealed(text) ? unseal('gemini', text) : unseal('gemini', signature, kind)
}

/** The thoughts of another provider's model that stand in place of a call's signature. */
export function readThoughts(signature: string): KeptThought[] {
  return unsealThoughts(readText(signature))
}

/**
 * The signature of a call: its own, or the thoughts before it, as clients leave out what was thought when they give a
 * conversation back. Undefined when it has neither.
 */
export function writeCallSignature(own: Proof | undefined, thoughts: readonly KeptThought[]): string | undefined {
  if (own) return writeSignature(own)
  return thoughts.length > 0 ? writeText(sealThoughts(thoughts)) : undefined
}

export function writeSignature(proof: Proof): string {
  return proof.family === 'gemini' ? proof.value : writeText(seal('gemini', proof))
}
