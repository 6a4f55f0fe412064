// What is wrong with the base address of a channel, and how much of a faulty one may be shown.
import { isIP } from 'node:net'
import { isPublic } from '../core/transport/connecting/egress.ts'

/** What is said of a text that is no address of an upstream. */
export const notAnAddress = 'must be an address like https://api.openai.com/v1'

/** The beginning of a faulty address for its message; empty when it may be a secret: a misplaced key, or a password. */
export function shownAddress(written: string): string {
  const [start = ''] = /^(?:[a-z][a-z\d+.-]*:\/\/)?[\w.:[\]-]*(?=\/|$)/i.exec(written) ?? []
  if (start.startsWith('sk-') || !/[./:]/.test(start)) return ''
  return `, not "${start}${start === written ? '' : '/…'}"`
}

/** The paths that calls add to a base address, which people may have copied together with it. */
const endpointPath =
  /\/(?:chat\/completions|completions|responses|embeddings|messages|moderations|rerank|images\/(?:generations|edits|variations)|audio\/(?:speech|transcriptions|translations)|videos|realtime|models(?:\/[^/]+:\w+)?)\/*$/

/**
 * Says what is wrong with a base address, if anything. It shows only the path and the host, because the rest may have a
 * password.
 */
export function faultOf(url: URL, mayBePrivate: boolean): string | undefined {
  if (url.protocol !== 'https:' && url.protocol !== 'http:') return notAnAddress
  if (url.username !== '' || url.password !== '') return 'must not hold a user or password: put the key in "credential"'
  if (url.hash !== '') return 'must not hold a fragment (#…)'
  const [call] = endpointPath.exec(url.pathname) ?? []
  if (call !== undefined) return `must not end in ${call}, which each call adds: leave that out`
  const host = url.hostname.replace(/^\[|\]$/g, '')
  const inside = isIP(host) === 0 ? /(^|\.)localhost\.?$/.test(host) : !isPublic(host)
  if (!inside || mayBePrivate) return undefined
  return `${host} is a private or loopback address: say "private: true" if that is meant`
}
