// PgBouncer before a PostgreSQL server, in transaction mode: each transaction may get another connection.
import { spawn } from 'node:child_process'
import { chownSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Owner } from './fleet.ts'
import { freePort } from './ports.ts'
import { serverUser } from './postgres.ts'
import type { Postgres } from './postgres.ts'
import { program } from './programs.ts'

/** Starts one, which ends with the test. Returns the URL by way of it of a database that a URL of the server names. */
export async function startPgBouncer(t: Owner, server: Postgres): Promise<(direct: string) => string> {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-pgbouncer-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  const port = await freePort()
  const file = join(folder, 'pgbouncer.ini')
  writeFileSync(
    file,
    `[databases]
* = host=${server.folder} port=5432 user=sluice
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = ${port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 5
max_client_conn = 200
`
  )
  if (serverUser) for (const path of [folder, file]) chownSync(path, serverUser.uid, serverUser.gid)
  const pooler = spawn(program('pgbouncer')!, [file], {
    cwd: folder,
    stdio: ['ignore', 'ignore', 'pipe'],
    ...serverUser
  })
  let said = ''
  pooler.stderr.setEncoding('utf8').on('data', (text: string) => (said += text))
  t.teardown(() => pooler.kill('SIGKILL'))
  while (!/process up/.test(said)) {
    if (pooler.exitCode !== null) throw new Error(`PgBouncer did not start: ${said}`)
    await sleep(20)
  }
  return (direct) => `postgres://sluice@127.0.0.1:${port}${new URL(direct).pathname}`
}
