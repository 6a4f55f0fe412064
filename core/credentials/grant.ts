// What a source gives: a credential and when it ends, and what is said when it gives none.

/** Keys that requests are signed with. */
export interface AwsKeys {
  readonly accessKeyId: string
  readonly secretAccessKey: string
  readonly sessionToken: string | undefined
}

/** A credential as it is used: a text that is sent, or keys. */
export type Secret = string | AwsKeys

/** A credential, and when it ends in Unix milliseconds; undefined when nobody said so. */
export interface Grant {
  readonly secret: Secret
  readonly expiresAt: number | undefined
}

/** Why a source gave nothing: half a sentence for the log and for `/readyz`, without secrets. */
export class SourceFault extends Error {}

/** The most characters of a credential. Headers of upstreams are rarely allowed more. */
const longest = 16 * 1024

/**
 * A text as a credential, without the ends of lines behind it. `who` gave it.
 * @throws SourceFault when it cannot be sent
 */
export function sendable(text: string, who: string): string {
  const secret = text.replace(/[\r\n]+$/, '')
  if (secret === '') throw new SourceFault(`${who} is empty`)
  if (secret.length > longest) throw new SourceFault(`${who} has more than ${longest} characters`)
  if (!/^[\x21-\x7e]+$/.test(secret))
    throw new SourceFault(
      `${who} has characters that no header can carry: one line of ASCII without blanks is expected`
    )
  return secret
}

/** When a JSON Web Token ends (RFC 7519 section 4.1.4), in Unix milliseconds; undefined for anything else. */
export function tokenExpiryOf(credential: string): number | undefined {
  const [, claims] = /^eyJ[\w-]*\.(eyJ[\w-]*)\.[\w-]*$/.exec(credential) ?? []
  if (claims === undefined) return undefined
  try {
    const { exp } = JSON.parse(Buffer.from(claims, 'base64url').toString()) as { exp?: unknown }
    // A Date has no times beyond this one.
    return typeof exp === 'number' && exp >= 0 && exp <= 8.64e12 ? exp * 1000 : undefined
  } catch {
    return undefined
  }
}

/** Whether two are the same credential. */
export function isSame(one: Secret, other: Secret): boolean {
  if (typeof one === 'string' || typeof other === 'string') return one === other
  return textsOf(one).join('\n') === textsOf(other).join('\n')
}

/** The texts in a credential that nobody but the upstream may see. */
export function textsOf(secret: Secret): string[] {
  if (typeof secret === 'string') return [secret]
  const { accessKeyId, secretAccessKey, sessionToken } = secret
  return [accessKeyId, secretAccessKey, ...(sessionToken === undefined ? [] : [sessionToken])]
}
