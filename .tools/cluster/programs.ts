// The programs of Debian that the cluster runs, and who may run them.
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { program } from '../../test/kit/programs.ts'

/** Who runs a program. */
export interface Account {
  readonly uid: number
  readonly gid: number
}

/** The paths of the programs. */
export interface Programs {
  readonly initdb: string
  readonly postgres: string
  readonly redis: string
  readonly haproxy: string
}

/** Where Debian puts the programs of each version of PostgreSQL. */
const versions = ['18', '17', '16', '15', '14'].map((version) => `/usr/lib/postgresql/${version}/bin`)

function ofPostgres(name: string): string | undefined {
  return versions.map((folder) => join(folder, name)).find((file) => existsSync(file)) ?? program(name)
}

/**
 * Finds all of them.
 * @throws Error that names the missing ones, with the command that installs them
 */
export function findPrograms(): Programs {
  const found: Readonly<Record<keyof Programs, readonly [string | undefined, string]>> = {
    initdb: [ofPostgres('initdb'), 'postgresql'],
    postgres: [ofPostgres('postgres'), 'postgresql'],
    redis: [program('redis-server') ?? program('valkey-server'), 'redis-server'],
    haproxy: [program('haproxy'), 'haproxy']
  }
  const packages = new Set(Object.values(found).flatMap(([path, name]) => (path === undefined ? [name] : [])))
  if (packages.size > 0)
    throw new Error(
      `This machine lacks ${[...packages].join(', ')}. Debian and Ubuntu: apt-get install ${[...packages].join(' ')}\n` +
        'The services that these packages start are not needed: the cluster runs servers of its own, on other ports.'
    )
  return Object.fromEntries(Object.entries(found).map(([name, [path]]) => [name, path])) as unknown as Programs
}

/**
 * Who runs the servers: PostgreSQL refuses to run as root, so the user `postgres` or `nobody` does where the cluster is
 * started by root. Undefined: whoever starts it.
 */
export function serverAccount(): Account | undefined {
  if (process.getuid?.() !== 0) return undefined
  const users = readFileSync('/etc/passwd', 'utf8').split('\n')
  const line = users.find((one) => one.startsWith('postgres:')) ?? users.find((one) => one.startsWith('nobody:'))
  if (line === undefined) throw new Error('PostgreSQL does not run as root, and there is no user postgres or nobody.')
  const [, , uid, gid] = line.split(':')
  return { uid: Number(uid), gid: Number(gid) }
}
