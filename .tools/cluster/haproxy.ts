// The configuration of HAProxy that is shipped, with the addresses of a cluster in place of those of the example.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'

const shipped = join(import.meta.dirname, '../../config/deploy/cluster/haproxy.cfg')

/** A gateway as HAProxy sees it. Both are ports of loopback. */
export interface Member {
  readonly name: string
  readonly port: number
  /** Where it answers `/readyz`. */
  readonly adminPort: number
}

/** The text for a port of loopback that clients use. */
export function haproxyConfig(port: number, members: readonly Member[]): string {
  const servers = (known: string): string =>
    members
      .map(({ name, port, adminPort }) => {
        const check = known.includes('check port') ? `check port ${adminPort}` : 'check'
        return `    server ${name} 127.0.0.1:${port} ${check}\n`
      })
      .join('')
  return readFileSync(shipped, 'utf8')
    .replace(/^( +)bind .*$/m, `$1bind 127.0.0.1:${port}`)
    .replace(/(?:^ +server .*\n)+/gm, servers)
}
