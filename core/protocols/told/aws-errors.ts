// Reads errors of AWS, which have a name in a header or in their body, and writes those that come as messages of a
// stream in the same form.
import type { Frame } from '../event-stream.ts'
import { asObject, asText } from '../object.ts'
import type { ErrorHeaders } from '../protocol.ts'

/**
 * What errors of Bedrock mean as statuses, as they may come without one; 424 and a quota told as 400 would be the
 * client's doing. https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_Converse.html
 */
const statuses: Readonly<Record<string, number>> = {
  ValidationException: 400,
  AccessDeniedException: 403,
  ExpiredTokenException: 403,
  UnrecognizedClientException: 403,
  ResourceNotFoundException: 404,
  ModelTimeoutException: 504,
  ThrottlingException: 429,
  ServiceQuotaExceededException: 429,
  ModelErrorException: 502,
  ModelStreamErrorException: 502,
  InternalServerException: 500,
  ModelNotReadyException: 503,
  ServiceUnavailableException: 503
}

/** An error of AWS. */
export interface AwsError {
  readonly name: string
  readonly message: string
  /** Undefined for names that are not in the table. */
  readonly status: number | undefined
}

/**
 * The error in a body, or undefined when nothing says that AWS made it. The name may have a namespace before it and an
 * address behind it: https://smithy.io/2.0/aws/protocols/aws-restjson1-protocol.html#operation-error-serialization
 */
export function readAwsError(body: unknown, headers: ErrorHeaders = {}): AwsError | undefined {
  const fields = asObject(body)
  const said = asText(headers['x-amzn-errortype']) || asText(fields?.['__type'])
  const [, word = ''] = /^(?:[^#]*#)?(\w+)/.exec(said) ?? []
  if (word === '') return undefined
  // Members of a stream begin in lower case, and are named as the errors are.
  const name = `${word[0]!.toUpperCase()}${word.slice(1)}`
  const message = asText(fields?.['message']) || asText(fields?.['Message'])
  return { name, message, status: Object.hasOwn(statuses, name) ? statuses[name] : undefined }
}

/** The payload of an error event for a message that is no event of the answer. */
export function errorPayload({ name, said, payload }: Frame): Buffer {
  let body: unknown
  try {
    body = JSON.parse(payload.toString('utf8'))
  } catch {
    body = undefined
  }
  const fields = asObject(body)
  const message =
    said || asText(fields?.['message']) || asText(fields?.['Message']) || 'The upstream reported an error.'
  return Buffer.from(JSON.stringify({ __type: name || 'unknown', message }))
}
