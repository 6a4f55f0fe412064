// PostgreSQL, Redis, HAProxy and the simulator, as the cluster runs them on this machine.
import { spawnSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { chownSync, existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import pg from 'pg'
import { haproxyConfig } from './haproxy.ts'
import type { Member } from './haproxy.ts'
import type { Account, Programs } from './programs.ts'
import type { Command } from './service.ts'

/** Where servers may write. */
export interface Place {
  /** What stays from one run to the next. */
  readonly data: string
  /** Sockets and files of this run. Nobody but the servers and the cluster may read it. */
  readonly run: string
  readonly account: Account | undefined
}

const settings = Object.entries({
  listen_addresses: '',
  max_connections: '100',
  shared_buffers: '64MB',
  log_min_messages: 'warning'
}).flatMap(([name, value]) => ['-c', `${name}=${value}`])

/**
 * PostgreSQL on a socket of its own. Its data are made in the first run.
 * @throws Error when they cannot be made
 */
export function postgresCommand({ initdb, postgres }: Programs, { data, run, account }: Place): Command {
  const folder = join(data, 'postgres')
  if (!existsSync(join(folder, 'PG_VERSION'))) {
    mkdirSync(folder, { recursive: true, mode: 0o700 })
    if (account) chownSync(folder, account.uid, account.gid)
    const args = ['-D', folder, '-A', 'trust', '-U', 'sluice', '-E', 'UTF8', '--locale=C.UTF-8']
    const { status, stderr } = spawnSync(initdb, args, { cwd: run, encoding: 'utf8', ...account })
    if (status !== 0)
      throw new Error(
        `PostgreSQL cannot make its data in ${folder}:\n${stderr}\n` +
          'Where its user may not enter that folder, name another one: npm run cluster -- --folder /var/tmp/sluice-cluster'
      )
  }
  return {
    name: 'postgres',
    file: postgres,
    args: ['-D', folder, '-k', run, ...settings],
    cwd: run,
    account,
    signals: ['INT', 'QUIT'],
    ready: 'database system is ready to accept connections'
  }
}

/** Makes the database where it is missing, and returns its URL. */
export async function prepareDatabase({ run }: Place): Promise<string> {
  const client = new pg.Client({ host: run, user: 'sluice', database: 'postgres' })
  await client.connect()
  try {
    const { rowCount } = await client.query(`select from pg_database where datname = 'sluice'`)
    if (rowCount === 0) await client.query('create database sluice')
  } finally {
    await client.end()
  }
  return `postgres://sluice@localhost/sluice?host=${encodeURIComponent(run)}`
}

/** Redis on a port of loopback, with a password of this run. It keeps nothing on disk. */
export function redisCommand({ redis }: Programs, { run, account }: Place, port: number): [Command, url: string] {
  const password = randomBytes(16).toString('hex')
  const file = join(run, 'redis.conf')
  const lines = [`bind 127.0.0.1`, `port ${port}`, `requirepass ${password}`, 'save ""', 'appendonly no']
  writeFileSync(file, `${lines.join('\n')}\n`, { mode: 0o600 })
  if (account) chownSync(file, account.uid, account.gid)
  const command: Command = {
    name: 'redis',
    file: redis,
    args: [file],
    cwd: run,
    account,
    signals: ['TERM', 'KILL'],
    ready: 'eady to accept connections'
  }
  return [command, `redis://:${password}@127.0.0.1:${port}`]
}

/** HAProxy with the configuration that is shipped. */
export function haproxyCommand(
  { haproxy }: Programs,
  { run, account }: Place,
  port: number,
  members: readonly Member[]
): Command {
  const file = join(run, 'haproxy.cfg')
  writeFileSync(file, haproxyConfig(port, members))
  return {
    name: 'haproxy',
    file: haproxy,
    args: ['-db', '-f', file],
    cwd: run,
    account,
    signals: ['TERM', 'KILL'],
    ready: port
  }
}
