// How upstreams of each family are sent a credential.

/**
 * The header with a credential; its name is in lower case. OpenAI: RFC 6750 §2.1;
 * https://platform.claude.com/docs/en/api/overview; https://ai.google.dev/api (a key in the query could end up in
 * logs); https://docs.aws.amazon.com/bedrock/latest/userguide/api-keys-use.html.
 */
export function credentialHeader(
  family: 'openai' | 'anthropic' | 'gemini' | 'bedrock',
  credential: string,
  dialect?: string
): [name: string, value: string] {
  if (family === 'gemini') return ['x-goog-api-key', credential]
  // Platforms that serve the models of another vendor have tokens of their own.
  const own = family === 'anthropic' && dialect === undefined
  return own ? ['x-api-key', credential] : ['authorization', `Bearer ${credential}`]
}
