// Removes the gateway's own signatures from an Anthropic request that is passed on without translation.
import { isSealed } from '../canonical/proofs.ts'
import { asObject, asText } from '../object.ts'
import type { JsonObject } from '../object.ts'

/** The messages without thoughts of another provider's model. Undefined when they hold none. */
export function withoutSealed({ messages }: JsonObject): { key: string; value: unknown } | undefined {
  if (!Array.isArray(messages)) return undefined
  const value = messages.flatMap((message: unknown) => {
    const content = asObject(message)?.['content']
    if (!Array.isArray(content)) return [message]
    const kept = content.filter((block) => !isSealedBlock(asObject(block)))
    return kept.length === content.length
      ? [message]
      : kept.length > 0
        ? [{ ...(message as JsonObject), content: kept }]
        : []
  })
  return value.length === messages.length && value.every((message, index) => message === messages[index])
    ? undefined
    : { key: 'messages', value }
}

function isSealedBlock(block: JsonObject | undefined): boolean {
  return (
    block !== undefined &&
    (isSealed(asText(block['signature'])) || (block['type'] === 'redacted_thinking' && isSealed(asText(block['data']))))
  )
}
