// Application default credentials of Google: from a file of one of its kinds, or from the metadata server.
import { createSign } from 'node:crypto'
import { callerIdentity } from './caller-identity.ts'
import { textOfFile } from './file.ts'
import { SourceFault, sendable } from './grant.ts'
import type { Grant } from './grant.ts'
import type { GcpSource } from './source.ts'
import { askServer, objectIn, tokenIn } from './token-server.ts'

const tokenServer = "Google's token server"
const metadataServer = 'the metadata server'
const googleTokenUrl = 'https://oauth2.googleapis.com/token'

type Fields = Readonly<Record<string, unknown>>

/** Asks for a token. The file is read each time, as it may be replaced. */
export async function askGcp(source: GcpSource, signal: AbortSignal): Promise<Grant> {
  const { file, metadata } = source
  if (file === undefined) return new Asking(source, '', signal).ofMetadata(metadata)
  const fields = objectIn(await textOfFile(file), file)
  return new Asking(source, file, signal).ofFile(fields)
}

/** One question, which may take several servers. */
class Asking {
  readonly #source: GcpSource
  readonly #file: string
  readonly #signal: AbortSignal

  constructor(source: GcpSource, file: string, signal: AbortSignal) {
    this.#source = source
    this.#file = file
    this.#signal = signal
  }

  ofFile(fields: Fields): Promise<Grant> {
    switch (fields['type']) {
      case 'service_account':
        return this.#ofAccount(fields)
      case 'authorized_user':
        return this.#ofUser(fields)
      case 'external_account':
        return this.#ofWorkload(fields)
      case 'impersonated_service_account':
        return this.#ofImpersonated(fields)
      default:
        throw new SourceFault(`${this.#file} has a "type" that is not known: ${kinds} are`)
    }
  }

  async ofMetadata(host: string): Promise<Grant> {
    const asked = Date.now()
    const { headers, text } = await askServer({
      url: `http://${host}/computeMetadata/v1/instance/service-accounts/default/token?scopes=${encodeURIComponent(this.#source.scope)}`,
      who: metadataServer,
      headers: { 'metadata-flavor': 'Google' },
      signal: this.#signal
    })
    // Anybody could answer at an address of the local network; the real one says who it is.
    if (headers.get('metadata-flavor') !== 'Google')
      throw new SourceFault(`${metadataServer} did not say that it is Google's`)
    return tokenIn(text, metadataServer, asked)
  }

  /** RFC 7523: a token that the account has signed is exchanged for one that is accepted. */
  async #ofAccount(fields: Fields): Promise<Grant> {
    const url = this.#address(fields, 'token_uri', googleTokenUrl)
    const email = this.#text(fields, 'client_email')
    const now = Math.floor(Date.now() / 1000)
    const claims = { iss: email, scope: this.#source.scope, aud: url, iat: now, exp: now + 3600 }
    const keyId = fields['private_key_id']
    const header = { alg: 'RS256', typ: 'JWT', ...(typeof keyId === 'string' && { kid: keyId }) }
    const signed = [header, claims].map((part) => Buffer.from(JSON.stringify(part)).toString('base64url')).join('.')
    let signature: string
    try {
      signature = createSign('RSA-SHA256').update(signed).sign(this.#text(fields, 'private_key'), 'base64url')
    } catch (error) {
      if (error instanceof SourceFault) throw error
      throw new SourceFault(`the "private_key" of ${this.#file} is no private key in PEM`)
    }
    const grant = 'urn:ietf:params:oauth:grant-type:jwt-bearer'
    return this.#token(url, { grant_type: grant, assertion: `${signed}.${signature}` })
  }

  #ofUser(fields: Fields): Promise<Grant> {
    return this.#token(this.#address(fields, 'token_uri', googleTokenUrl), {
      grant_type: 'refresh_token',
      client_id: this.#text(fields, 'client_id'),
      client_secret: this.#text(fields, 'client_secret'),
      refresh_token: this.#text(fields, 'refresh_token')
    })
  }

  /** RFC 8693: a token of another platform is exchanged for one of Google's. */
  async #ofWorkload(fields: Fields): Promise<Grant> {
    const impersonation = fields['service_account_impersonation_url']
    const scope = 'https://www.googleapis.com/auth/cloud-platform'
    const grant = await this.#token(this.#address(fields, 'token_url'), {
      grant_type: 'urn:ietf:params:oauth:grant-type:token-exchange',
      audience: this.#text(fields, 'audience'),
      scope: impersonation === undefined ? this.#source.scope : scope,
      requested_token_type: 'urn:ietf:params:oauth:token-type:access_token',
      subject_token: await this.#subjectToken(fields),
      subject_token_type: this.#text(fields, 'subject_token_type')
    })
    if (impersonation === undefined) return grant
    return this.#impersonate(this.#address(fields, 'service_account_impersonation_url'), grant)
  }

  async #ofImpersonated(fields: Fields): Promise<Grant> {
    const grant = await this.ofFile(this.#object(fields, 'source_credentials'))
    return this.#impersonate(this.#address(fields, 'service_account_impersonation_url'), grant)
  }

  async #impersonate(url: string, { secret }: Grant): Promise<Grant> {
    if (typeof secret !== 'string') throw new SourceFault('these credentials are no token')
    const { text } = await askServer({
      url,
      who: tokenServer,
      headers: { authorization: `Bearer ${secret}` },
      json: { scope: [this.#source.scope], lifetime: '3600s' },
      signal: this.#signal
    })
    const { accessToken, expireTime } = objectIn(text, tokenServer)
    const expiresAt = typeof expireTime === 'string' ? Date.parse(expireTime) : NaN
    if (typeof accessToken !== 'string' || Number.isNaN(expiresAt))
      throw new SourceFault(`${tokenServer} answered without an accessToken and its expireTime`)
    return { secret: sendable(accessToken, `the token of ${tokenServer}`), expiresAt }
  }

  async #subjectToken(fields: Fields): Promise<string> {
    const from = this.#object(fields, 'credential_source')
    const { file, url, environment_id: environment } = from
    if (environment === 'aws1')
      return callerIdentity(from['regional_cred_verification_url'], this.#text(fields, 'audience'))
    if (typeof file !== 'string' && typeof url !== 'string')
      throw new SourceFault(`the "credential_source" of ${this.#file} is not known: "file", "url" and those of AWS are`)
    const headers = from['headers'] as Record<string, string> | undefined
    const text =
      typeof file === 'string'
        ? await textOfFile(file)
        : (
            await askServer({
              url: this.#address(from, 'url'),
              who: 'the server with the token of the workload',
              ...(headers && { headers }),
              signal: this.#signal
            })
          ).text
    const format = from['format'] as { type?: unknown; subject_token_field_name?: unknown } | undefined
    if (format?.type !== 'json') return sendable(text, 'the token of the workload')
    const found = objectIn(text, 'the token of the workload')[
      this.#text(from['format'] as Fields, 'subject_token_field_name')
    ]
    if (typeof found !== 'string') throw new SourceFault('the token of the workload has not the field of its format')
    return sendable(found, 'the token of the workload')
  }

  async #token(url: string, form: Readonly<Record<string, string>>): Promise<Grant> {
    const asked = Date.now()
    const { text } = await askServer({ url, who: tokenServer, form, signal: this.#signal })
    return tokenIn(text, tokenServer, asked)
  }

  /**
   * An address out of the file. Whoever writes the file could have secrets sent to anywhere, so only Google's hosts are
   * asked, and those that gateway.yaml allows.
   */
  #address(fields: Fields, name: string, otherwise?: string): string {
    const text = fields[name] === undefined && otherwise !== undefined ? otherwise : this.#text(fields, name)
    const url = URL.canParse(text) ? new URL(text) : undefined
    const google = url?.protocol === 'https:' && url.hostname.endsWith('.googleapis.com')
    if (!url || !(google || this.#source.hosts.includes(url.hostname)))
      throw new SourceFault(
        `the "${name}" of ${this.#file} is no https address of googleapis.com: allow its host in gcp.hosts if that is meant`
      )
    return url.href
  }

  #text(fields: Fields, name: string): string {
    const value = fields[name]
    if (typeof value !== 'string' || value === '') throw new SourceFault(`${this.#file} has no "${name}"`)
    return value
  }

  #object(fields: Fields, name: string): Fields {
    const value = fields[name]
    if (typeof value !== 'object' || value === null) throw new SourceFault(`${this.#file} has no "${name}"`)
    return value as Fields
  }
}

const kinds = 'service_account, authorized_user, external_account and impersonated_service_account'
