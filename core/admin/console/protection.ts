// The headers that tell browsers what pages of the admin listener may do.
import { createHash } from 'node:crypto'

/** On every answer: no page of another site may frame it, read it, or learn where the reader came from. */
export const everywhere = {
  'content-security-policy': "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
  'referrer-policy': 'no-referrer',
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin'
} as const

/** On workers, which have a policy of their own: they may ask this listener, and load modules of it. */
export const workerHeaders = {
  'content-security-policy':
    "default-src 'none'; script-src 'self'; connect-src 'self'; frame-ancestors 'none'; require-trusted-types-for 'script'"
} as const

/** On the page of the console. `inline` is the text of its one inline script, the import map; absent without one. */
export function pageHeaders(inline: string | undefined): Readonly<Record<string, string>> {
  const hash = inline === undefined ? '' : ` 'sha256-${createHash('sha256').update(inline).digest('base64')}'`
  return {
    'content-security-policy': [
      "default-src 'none'",
      `script-src 'self'${hash}`,
      "style-src 'self'",
      "img-src 'self' data: blob:",
      "media-src 'self' blob:",
      "connect-src 'self'",
      "base-uri 'none'",
      "form-action 'self'",
      "frame-ancestors 'none'",
      "require-trusted-types-for 'script'",
      'trusted-types sluice'
    ].join('; '),
    'permissions-policy': 'microphone=(self), camera=(), geolocation=()'
  }
}
