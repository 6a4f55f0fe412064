// How each kind of source is asked.
import { awsChain } from './aws.ts'
import { askAzure } from './azure.ts'
import { askCommand, askFile } from './file.ts'
import { askGcp } from './gcp.ts'
import type { Grant, Secret } from './grant.ts'
import { askOauth2 } from './oauth2.ts'
import type { CredentialSource } from './source.ts'

/**
 * Asks a source once. It rejects with a SourceFault, or with any other error, whose message may have secrets. `refused`
 * is what an upstream does not take any more.
 */
export type Ask = (signal: AbortSignal, refused?: Secret) => Promise<Grant>

/** Where a credential comes from. */
export interface Origin {
  readonly ask: Ask
  /** The file whose replacement means that there is another one. */
  readonly file: string | undefined
  /** Whether whoever has this asks in time, and tells the log of faults. Otherwise it is told of each new one. */
  readonly renews: boolean
  /** See {@link restOf}. */
  readonly rest: number
}

/** The origin of a credential in the thread that asks its source. */
export function originOf(source: CredentialSource): Origin {
  return { ask: askOf(source), file: fileOf(source), renews: true, rest: restOf(source) }
}

/** The way to ask a source. */
export function askOf(source: CredentialSource): Ask {
  switch (source.kind) {
    case 'file':
      return () => askFile(source)
    case 'command':
      return (signal) => askCommand(source, signal)
    case 'oauth2':
      return (signal) => askOauth2(source, signal)
    case 'gcp':
      return (signal) => askGcp(source, signal)
    case 'azure':
      return (signal) => askAzure(source, signal)
    case 'aws': {
      let chain: ReturnType<typeof awsChain> | undefined
      return async () => (await (chain ??= awsChain(source)))()
    }
  }
}

/** How often keys of AWS are looked for again that nobody gave an end, in milliseconds. */
const lookAgainMs = 300_000

/**
 * After how many milliseconds a source is asked again whatever it gave; undefined where only the end counts.
 * `expiresAt`: the end that it told, if it told one.
 */
export function rhythmOf(source: CredentialSource, expiresAt: number | undefined): number | undefined {
  if (source.kind === 'command') return source.every
  return source.kind === 'aws' && expiresAt === undefined ? lookAgainMs : undefined
}

/**
 * The least time between two questions that are asked because an upstream refused what there was, in milliseconds. A
 * file is soon read, and others may have to wait for a server.
 */
function restOf({ kind }: CredentialSource): number {
  return kind === 'file' ? 0 : 5000
}

/** The file whose replacement means that there is another credential. */
function fileOf(source: CredentialSource): string | undefined {
  return source.kind === 'file' || source.kind === 'gcp' ? source.file : undefined
}
