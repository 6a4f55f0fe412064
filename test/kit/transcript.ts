// Loads golden transcripts: recorded upstream streams, with what clients must see of them.
import { existsSync, readFileSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import type { Usage } from '../../core/money/usage.ts'

/** One case of test/golden, which has a README. */
export interface Transcript {
  name: string
  summary: string
  upstream: Buffer
  /** The streams for a client that did not ask for usage, and for one that did. */
  client: Buffer
  asked: Buffer
  usage: Usage | undefined
  source: 'upstream' | 'estimated'
  n: number
  compare: 'bytes' | 'events'
  grammar: boolean | 'client'
}

const folder = join(import.meta.dirname, '..', 'golden')

/** All cases of a protocol. */
export function transcripts(protocol: string): Transcript[] {
  const inside = join(folder, protocol)
  const names = readdirSync(inside)
    .filter((file) => file.endsWith('.json'))
    .map((file) => file.slice(0, -5))
  return names.map((name) => {
    const bytes = (kind: string): Buffer => readFileSync(join(inside, `${name}.${kind}.sse`))
    const seen = (kind: string): Buffer => bytes(existsSync(join(inside, `${name}.${kind}.sse`)) ? kind : 'upstream')
    const facts = JSON.parse(readFileSync(join(inside, `${name}.json`), 'utf8')) as Pick<
      Transcript,
      'summary' | 'source'
    > &
      Partial<Transcript>
    return {
      n: 1,
      compare: 'bytes',
      grammar: true,
      usage: undefined,
      ...facts,
      name,
      upstream: bytes('upstream'),
      client: seen('client'),
      asked: seen('asked')
    }
  })
}
