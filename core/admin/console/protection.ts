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

/** On the page of the console. `scripts` and `style` are the texts that stand in the page itself. */
export function pageHeaders(scripts: readonly string[], style: string): Readonly<Record<string, string>> {
  const hash = (text: string): string => ` 'sha256-${createHash('sha256').update(text).digest('base64')}'`
  return {
    'content-security-policy': [
      "default-src 'none'",
      `script-src 'self'${scripts.map(hash).join('')}`,
      `style-src 'self'${hash(style)}`,
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
