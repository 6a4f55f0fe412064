// Signatures of thoughts, which Gemini has in base64.
import { readText, writeText } from '../canonical/media.ts'
import { isSealed, seal, unseal } from '../canonical/proofs.ts'
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

export function writeSignature(proof: Proof): string {
  return proof.family === 'gemini' ? proof.value : writeText(seal('gemini', proof))
}
