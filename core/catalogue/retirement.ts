// Makes the response headers that announce the retirement of a model and its successor.
import type { Model } from './catalogue.ts'

/** Pairs of name and value; empty for a model that is not deprecated. */
export function retirementHeaders({ deprecated }: Model): readonly (readonly [string, string])[] {
  if (!deprecated) return []
  const { since, sunset, replacement } = deprecated
  // RFC 9745 §2.1: a structured-field date. RFC 8594 §3: an HTTP date.
  const headers: [string, string][] = [['Deprecation', `@${Math.floor(since / 1000)}`]]
  if (sunset !== undefined) headers.push(['Sunset', new Date(sunset).toUTCString()])
  if (replacement !== undefined)
    headers.push(['Link', `</v1/models/${encodeURIComponent(replacement)}>; rel="successor-version"`])
  return headers
}
