// The protocols of Bedrock's token counting, and how a request is written for it. No client speaks them.
import { withoutStream } from '../whole.ts'
import { bedrock } from './protocol.ts'

/** The body of a request as it is to be sent. */
interface Sent {
  raw(key: string): Buffer | undefined
  set(key: string, value: unknown): void
  render(): unknown
  replace(bytes: Buffer): void
}

const counting = {
  isAnswer: ({ lens }: Parameters<typeof bedrock.isAnswer>[0]) => lens?.type('inputTokens') === 'number',
  readUsage: () => undefined
}

/** Of a request for Converse. https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_CountTokens.html */
export const converseCount = withoutStream(bedrock, counting)

/** Of a request for InvokeModel. */
export const invokeCount = withoutStream(bedrock, counting)

/** Where the tokens for a model are counted: at the model itself, and not at a profile that sends it to a region. */
export function countTarget(model: string): string {
  return `/model/${encodeURIComponent(model.replace(/^(?:us|us-gov|eu|apac|jp|au|ca|sa|global)\./, ''))}/count-tokens`
}

/**
 * Of a Converse request, what is counted.
 * https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ConverseTokensRequest.html
 */
export function converseTokens(body: Sent): void {
  const members = ['messages', 'system', 'toolConfig', 'additionalModelRequestFields'].flatMap((name) => {
    const value = body.raw(name)
    return value === undefined ? [] : [Buffer.from(`,"${name}":`), value]
  })
  const first = Buffer.from('{"input":{"converse":{')
  // The comma before the first member is left out.
  const [head, ...rest] = members
  const begin = head === undefined ? [] : [head.subarray(1), ...rest]
  body.replace(Buffer.concat([first, ...begin, Buffer.from('}}}')]))
}

/** A body for InvokeModel, as bytes in base64. Messages are not taken without a limit, which is not counted. */
export function invokeTokens(body: Sent): void {
  if (body.raw('max_tokens') === undefined) body.set('max_tokens', 1)
  const bytes = Buffer.concat(body.render() as readonly Buffer[]).toString('base64')
  body.replace(
    Buffer.concat([Buffer.from('{"input":{"invokeModel":{"body":"'), Buffer.from(bytes), Buffer.from('"}}}')])
  )
}
