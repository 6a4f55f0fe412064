// What platforms that serve Anthropic's models want of a Messages request: the model stands in the path, and the
// version of the protocol in the body.

/** The body of a request as it is sent, and its members. */
interface Sent {
  json(key: string): unknown
  set(key: string, value: unknown): void
  remove(key: string): void
}

/** The headers of the protocol that would be sent, by name in lower case. */
type Headers = Record<string, string>

const versionHeader = 'anthropic-version'
const betaHeader = 'anthropic-beta'

/**
 * For InvokeModel of Amazon Bedrock: whether to stream is in the path, and betas are in the body.
 * https://docs.aws.amazon.com/bedrock/latest/userguide/model-parameters-anthropic-claude-messages-request-response.html
 */
export function invokeBody(body: Sent, headers: Headers): void {
  inPath(body, headers, 'bedrock-2023-05-31')
  body.remove('stream')
  const betas = headers[betaHeader]
  delete headers[betaHeader]
  const named = betas?.split(',').flatMap((beta) => beta.trim() || [])
  if (named && named.length > 0) body.set('anthropic_beta', named)
}

/**
 * For rawPredict and streamRawPredict of Vertex AI, where betas stay in their header.
 * https://docs.cloud.google.com/vertex-ai/generative-ai/docs/partner-models/claude/use-claude
 */
export function predictBody(body: Sent, headers: Headers): void {
  inPath(body, headers, 'vertex-2023-10-16')
}

/**
 * For counting tokens there, by a path without the model.
 * https://docs.cloud.google.com/vertex-ai/generative-ai/docs/partner-models/claude/count-tokens
 */
export function predictCount(body: Sent, headers: Headers): void {
  delete headers[versionHeader]
  body.set('anthropic_version', 'vertex-2023-10-16')
}

function inPath(body: Sent, headers: Headers, version: string): void {
  delete headers[versionHeader]
  body.remove('model')
  body.set('anthropic_version', version)
}
