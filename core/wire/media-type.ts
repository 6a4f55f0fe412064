// Reads facts about a body from its media type.

const json = /^\s*(?:application\/json|[^\s;/]+\/[^\s;/]+\+json)\s*(?:;|$)/i

/** Whether the type is JSON or has the suffix `+json` (RFC 6839 §3.1), with any parameters. */
export function isJson(type: string): boolean {
  return json.test(type)
}
