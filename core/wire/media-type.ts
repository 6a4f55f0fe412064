// What a media type says of a body.

const json = /^\s*(?:application\/json|[^\s;/]+\/[^\s;/]+\+json)\s*(?:;|$)/i

/** Whether it is JSON, or something made of it (RFC 6839 §3.1), whatever its parameters. */
export function isJson(type: string): boolean {
  return json.test(type)
}
