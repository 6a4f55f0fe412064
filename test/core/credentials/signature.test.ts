// Signatures of requests: AWS's published vectors, and its own library for everything else.
import { SignatureV4 } from '@smithy/signature-v4'
import { createHash, createHmac } from 'node:crypto'
import fc from 'fast-check'
import t from 'tap'
import { amzDate, signatureOf } from '../../../core/credentials/signature.ts'
import { codePoint } from '../../kit/code-point.ts'

const pair = { accessKeyId: 'AKIDEXAMPLE', secretAccessKey: 'wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY' }
const keys = { ...pair, sessionToken: undefined }
const time = Date.UTC(2015, 7, 30, 12, 36, 0)
const scope = { region: 'us-east-1', service: 'service' }
const sha256 = (data: string | Buffer): string => createHash('sha256').update(data).digest('hex')

function signed(method: string, target: string, body = '', more: Record<string, string> = {}): string {
  const headers = { host: 'example.amazonaws.com', 'x-amz-date': amzDate(time), ...more }
  return signatureOf({ method, target, headers, bodyHash: sha256(body) }, keys, scope)
}

t.test("the vectors of AWS's suite", async (t) => {
  t.equal(
    signed('GET', '/'),
    'AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, SignedHeaders=host;x-amz-date, ' +
      'Signature=5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31',
    'get-vanilla'
  )
  t.match(
    signed('GET', '/?Param2=value2&Param1=value1'),
    /Signature=b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500$/,
    'get-vanilla-query-order-key-case'
  )
  t.match(
    signed('POST', '/', 'Param1=value1', { 'content-type': 'application/x-www-form-urlencoded' }),
    /Signature=ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a$/,
    'post-x-www-form-urlencoded'
  )
})

/** The hash that the library wants. */
class Sha256 {
  readonly #hash
  constructor(secret?: string | Uint8Array) {
    this.#hash = secret === undefined ? createHash('sha256') : createHmac('sha256', secret)
  }
  update(data: string | Uint8Array): void {
    this.#hash.update(data)
  }
  async digest(): Promise<Uint8Array> {
    return this.#hash.digest()
  }
}

t.test("the signature is that of AWS's library, whatever is in the path, the query and the body", async () => {
  const segment = fc.oneof(
    fc.constantFrom(
      'model',
      'us.anthropic.claude-x-v1%3A0',
      'arn%3Aaws%3Abedrock%3Aus-east-1%3A1%3Ainference-profile%2Fa',
      'invoke'
    ),
    fc
      .string({ minLength: 1, maxLength: 20 })
      .map((text) => encodeURIComponent(text.toWellFormed()))
      .filter((text) => !/^\.\.?$/.test(text))
  )
  const value = fc.string({ maxLength: 20, unit: 'grapheme-ascii' })
  await fc.assert(
    fc.asyncProperty(
      fc.array(segment, { minLength: 1, maxLength: 4 }),
      fc.dictionary(fc.string({ minLength: 1, maxLength: 5 }), fc.string({ maxLength: 5 }), { maxKeys: 3 }),
      fc.string({ unit: codePoint, maxLength: 200 }),
      value,
      fc.option(fc.stringMatching(/^[A-Za-z0-9+/=]{4,40}$/), { nil: undefined }),
      async (segments, parameters, body, trace, sessionToken) => {
        const path = `/${segments.join('/')}`
        const encoded = Object.entries(parameters).map((pair) => pair.map((text) => encodeURIComponent(text)).join('='))
        const target = encoded.length === 0 ? path : `${path}?${encoded.join('&')}`
        const theirs = await new SignatureV4({
          service: 'bedrock',
          region: 'eu-west-1',
          sha256: Sha256 as never,
          credentials: { ...pair, ...(sessionToken !== undefined && { sessionToken }) },
          applyChecksum: true
        }).sign(
          {
            method: 'POST',
            protocol: 'https:',
            hostname: 'h.example',
            path,
            query: parameters,
            headers: { host: 'h.example', 'content-type': 'application/json', 'x-amzn-bedrock-trace': trace },
            body
          },
          { signingDate: new Date(time) }
        )
        const headers = {
          host: 'h.example',
          'content-type': 'application/json',
          'x-amzn-bedrock-trace': trace,
          'x-amz-date': amzDate(time),
          'x-amz-content-sha256': sha256(body),
          ...(sessionToken !== undefined && { 'x-amz-security-token': sessionToken })
        }
        const ours = signatureOf({ method: 'POST', target, headers, bodyHash: sha256(body) }, keys, {
          region: 'eu-west-1',
          service: 'bedrock'
        })
        return ours === theirs.headers['authorization']
      }
    )
  )
})
