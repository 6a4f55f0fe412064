// Removes the gateway's own signatures from a Gemini request that is passed on without translation.
import { readText } from '../canonical/media.ts'
import { isSealed } from '../canonical/proofs.ts'
import { asObject, asText } from '../object.ts'
import type { JsonObject } from '../object.ts'
import { noSignature } from './signature.ts'

/** The contents without thoughts of another provider's model. Undefined when they hold none. */
export function withoutSealed({ contents }: JsonObject): { key: string; value: unknown } | undefined {
  if (!Array.isArray(contents)) return undefined
  const value = contents.flatMap((content: unknown) => {
    const parts = asObject(content)?.['parts']
    if (!Array.isArray(parts)) return [content]
    const kept = parts.flatMap(withoutSealedPart)
    const same = kept.length === parts.length && kept.every((part, index) => part === parts[index])
    return same ? [content] : kept.length > 0 ? [{ ...(content as JsonObject), parts: kept }] : []
  })
  return value.length === contents.length && value.every((content, index) => content === contents[index])
    ? undefined
    : { key: 'contents', value }
}

/** A call is kept, with the value that the vendor accepts in place of a signature. */
function withoutSealedPart(value: unknown): unknown[] {
  const part = asObject(value)
  const signature = asText(part?.['thoughtSignature'])
  if (!part || signature === '' || !isSealed(readText(signature))) return [value]
  if (part['functionCall'] !== undefined) return [{ ...part, thoughtSignature: noSignature }]
  const { thoughtSignature: _signature, ...rest } = part
  return part['thought'] === true ? [] : [rest]
}
