// What both forms of a store keep when their process is killed, their disk fails or a thread dies.
import { spawnSync } from 'node:child_process'
import { mkdirSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { Worker } from 'node:worker_threads'
import type { Test } from 'tap'
import { openDatabase } from '../../../../core/store/embedded/files/sqlite.ts'
import { openStore as open } from '../../../../core/store/embedded/store.ts'
import type { OwnStore, StoreOptions } from '../../../../core/store/embedded/store.ts'
import { verify } from '../../../../core/store/embedded/care/verify/verify.ts'
import { Disk, noDisk } from '../../../chaos/disk.ts'
import { eventually } from '../../../kit/probe.ts'
import { long } from '../../../money/rig.ts'
import { startCrash as start } from './crashes.ts'
import type { CrashChild } from './crashes.ts'
import { image } from './forms.ts'
import type { Form } from './forms.ts'
import { query, reserve, scope, settle } from './sample.ts'

const namespaces =
  spawnSync('unshare', ['-rm', 'sh', '-c', 'mount -t tmpfs -o size=1m tmpfs /mnt'], { stdio: 'ignore' }).status === 0

/** Tests a form. */
export function testDurability(t: Test, { name, options }: Form): void {
  const openStore = (given: StoreOptions): Promise<OwnStore> => open({ ...given, ...options })
  const startCrash = (mode: string, file: string, command: string[] = []): CrashChild =>
    start(mode, file, command, name)

  t.test('killed at any moment, nothing that was acknowledged is lost and nothing is charged twice', async (t) => {
    const file = join(t.testdir(), 'sluice.db')
    const lines: string[] = []
    for (let i = 0; i < 10; i++) {
      const child = startCrash('serve', file)
      const ends = (): number => child.lines.filter((line) => line.startsWith('end')).length
      const enough = 11 + Math.floor(Math.random() * 40)
      await eventually(() => ends() >= enough, 60_000)
      await child.kill()
      lines.push(...child.lines)
    }
    const store = await openStore({ file, durability: 'process' })
    await store.close()
    t.same(verify(file), [], 'every invariant holds')
    const ends = new Map<string, bigint[]>()
    for (const { request_id, amount } of query(
      file,
      "SELECT request_id, amount FROM journal WHERE class = 'terminal'"
    )) {
      ends.set(request_id as string, [...(ends.get(request_id as string) ?? []), amount as bigint])
    }
    const words = lines.map((line) => line.split(' '))
    const started = words.filter(([word]) => word === 'byte')
    const finished = words.filter(([word]) => word === 'end')
    t.ok(finished.length >= 110, `${finished.length} of ${started.length} exchanges were finished`)
    t.equal(started.filter(([, id]) => ends.get(id!)?.length !== 1).length, 0, 'who saw a byte has one end')
    t.equal(
      finished.filter(([, id, amount]) => ends.get(id!)?.[0] !== BigInt(amount!)).length,
      0,
      'who saw the end was charged that'
    )
    const recovered = query(file, "SELECT count(*) AS n FROM journal WHERE source = 'recovered'")[0]!['n'] as bigint
    t.ok(recovered > 0n, `${recovered} were ended by recovery`)
  })

  t.test('a recovery that is killed goes on where it was, and charges what can be known', async (t) => {
    const file = join(t.testdir(), 'sluice.db')
    const child = startCrash('hold', file)
    await child.line('held')
    await child.kill()
    const left = (): number => Number(query(file, 'SELECT count(*) AS n FROM reservation')[0]!['n'])
    const total = left()
    t.equal(total, 20_000)
    const recovering = startCrash('open', file)
    while (left() === total) await sleep(2)
    await recovering.kill()
    const midway = left()
    t.ok(midway < total, `killed with ${midway} of ${total} left`)
    const store = await openStore({ file, durability: 'process' })
    const { recovered } = store.health()
    // The journal may be one batch ahead of the database.
    const rest = name === 'journal' ? [midway, midway - 500] : [midway]
    t.ok(rest.includes(recovered), `${recovered} of ${midway} were the rest`)
    t.same(
      store.ledger.balances({ scope: 'project:acme/p0' }).map(({ pending }) => pending),
      [0n]
    )
    const { data } = await store.requests.list({ limit: 2 })
    await store.close()
    t.same(verify(file), [])
    t.match(
      query(
        file,
        'SELECT kind, source, count(*) AS n, min(amount) AS low, max(amount) AS high FROM journal GROUP BY 1, 2 ORDER BY 1'
      ),
      [
        // Estimated input is 10 tokens of 2 nano-dollars; of up to 199 delivered units at 1, no more than the 100 asked
        // for count.
        { kind: 'settle', source: 'recovered', n: 10_000n, low: 20n, high: 120n },
        { kind: 'void', source: null, n: 10_000n, low: 0n, high: 0n }
      ]
    )
    t.match(data, [
      {
        outcome: 'failed',
        tenant: 'acme',
        project: 'p0',
        key: 'k4',
        usage: null,
        usage_source: null,
        cost_nano: '0',
        channel: null
      },
      {
        outcome: 'failed',
        tenant: 'acme',
        project: 'p1',
        key: 'k3',
        usage: { input: 10, output: 100 },
        usage_source: 'recovered',
        cost_nano: '120',
        channel: 'openai'
      }
    ])
  })

  t.test(
    'a hold that nobody waits for goes with its end, or within milliseconds; one that is waited for at once',
    async (t) => {
      const file = join(t.testdir(), 'sluice.db')
      const store = await openStore({ file, durability: 'process' })
      const scopes = [scope('key', 'laptop')]
      const commits = (): number => store.health().commits

      const short = reserve(store.ledger, scopes, 10n)
      const ended = settle(store, short, 4)
      t.equal(short.durable, ended, 'on disk with its end')
      await ended
      t.equal(commits(), 1, 'one batch for both')

      const long = reserve(store.ledger, scopes, 20n)
      long.dispatched('openai')
      await eventually(() => commits() > 1)
      t.equal(commits(), 2, 'nobody asked')
      const crashed = await openStore({ file: image(file), durability: 'process' })
      t.equal(crashed.health().recovered, 1)
      await crashed.close()
      // The balances may have been written in the meantime.
      await store.flush()
      const before = commits()
      await long.durable
      t.equal(commits(), before, 'asked for afterwards, it is there')

      const streamed = reserve(store.ledger, scopes, 30n)
      await streamed.durable
      t.equal(commits(), before + 1)
      await Promise.all([settle(store, long, 5), settle(store, streamed, 6)])
      await store.close()
      t.same(verify(file), [])
    }
  )

  t.test(
    'while another process holds the database, work goes on in the commit log, and a crash loses nothing of it',
    async (t) => {
      const folder = t.testdir()
      const file = join(folder, 'sluice.db')
      const store = await openStore({ file, durability: 'power' })
      const scopes = [scope('key', 'laptop', 1000n)]
      const early = reserve(store.ledger, scopes, 10n)
      await early.durable
      await store.flush()
      const other = openDatabase(file, 'process')
      other.exec('BEGIN IMMEDIATE')
      await settle(store, early, 7)
      const late = reserve(store.ledger, scopes, 20n)
      await late.durable
      await store.flush()
      t.match(
        store.health(),
        { healthy: true, failures: 1, lastError: /locked/ },
        'waiting for the database ends with its failure'
      )
      t.ok(store.health().unappliedBytes > 0)
      await settle(store, late, 8)
      await settle(store, reserve(store.ledger, scopes, 5n), 5)
      t.match(query(file, 'SELECT count(*) AS n FROM request'), [{ n: 0n }], 'the database has nothing of it')
      const copy = image(file)
      other.exec('ROLLBACK')
      other.close()
      await store.close()
      const crashed = await openStore({ file: copy, durability: 'power' })
      t.equal(crashed.health().recovered, 0)
      await crashed.close()
      for (const path of [file, copy]) {
        t.same(verify(path), [])
        t.match(query(path, 'SELECT sum(amount) AS spent, count(*) AS n FROM journal'), [{ spent: 20n, n: 3n }])
        t.match(query(path, 'SELECT count(*) AS n FROM request'), [{ n: 3n }])
      }
    }
  )

  t.test('killed at any write or sync of its very first start, a store starts', { skip: noDisk }, async (t) => {
    const home = t.testdir()
    const stride = long ? 1 : 7
    let [next, killed, over] = [1, 0, false]

    const killSome = async (): Promise<void> => {
      while (!over) {
        const at = next
        next += stride
        const file = join(home, String(at), 'sluice.db')
        mkdirSync(dirname(file))
        const disk = Disk.make(t, file)
        disk.set({ killAt: at })
        const child = startCrash('open', file, [
          'env',
          ...Object.entries(disk.env).map(([name, value]) => `${name}=${value}`)
        ])
        over ||= await child.line('ready').then(
          () => true,
          () => false
        )
        await child.kill()
        const store = await openStore({ file, durability: 'power' })
        await settle(store, reserve(store.ledger, [scope('tenant', 'acme')], 1000n), 7)
        await store.close()
        t.strictSame(verify(file), [], `killed at ${at}`)
        killed++
      }
    }
    await Promise.all([killSome(), killSome(), killSome()])
    t.ok(killed * stride > 40, `it was killed ${killed} times`)
  })

  t.test('a writer thread that dies is replaced, and what it had under way is applied once', async (t) => {
    const file = join(t.testdir(), 'sluice.db')
    const threads = new Set<Worker>()
    const { postMessage } = Worker.prototype
    Worker.prototype.postMessage = function (this: Worker, ...message: [unknown]) {
      threads.add(this)
      postMessage.apply(this, message)
    }
    t.teardown(() => void (Worker.prototype.postMessage = postMessage))
    const store = await openStore({ file, durability: 'power' })
    threads.clear()
    const scopes = [scope('key', 'laptop')]
    for (let round = 0; round < 2; round++) {
      const settled: Promise<void>[] = []
      for (let i = 0; i < 200; i++) settled.push(settle(store, reserve(store.ledger, scopes, 5n), 3))
      await Promise.all(settled)
      // The thread has begun with the segment and does not get to its end. What was settled before may be in the
      // database by now, and a thread with nothing under way dies unnoticed.
      const other = openDatabase(file, 'process')
      other.exec('BEGIN IMMEDIATE')
      threads.clear()
      await settle(store, reserve(store.ledger, scopes, 5n), 3)
      const flushed = store.flush()
      while (threads.size === 0) await sleep(1)
      const [thread] = threads
      threads.clear()
      await thread!.terminate()
      other.exec('ROLLBACK')
      other.close()
      await flushed
      while (store.health().unappliedBytes > 0) await sleep(5)
      threads.clear()
    }
    const { healthy, failures } = store.health()
    t.ok(healthy && failures >= 2, `${failures} failures`)
    await store.close()
    t.same(verify(file), [])
    t.match(query(file, 'SELECT count(*) AS n, sum(amount) AS spent FROM journal'), [{ n: 402n, spent: 1206n }])
  })

  t.test(
    'a full disk loses nothing that was acknowledged, and everything goes on when there is room',
    { skip: !namespaces && 'no tmpfs can be mounted here' },
    async (t) => {
      const folder = t.testdir()
      const child = startCrash('fill', join(folder, 'sluice.db'), [
        'unshare',
        '-rm',
        'sh',
        '-c',
        'mount -t tmpfs -o size=3m tmpfs "$0" && exec "$@"',
        folder
      ])
      const result = JSON.parse(await child.line('{')) as {
        early: number
        ends: number
        rejected: number
        rows: number
      }
      t.match(result, {
        code: 'billing_unavailable',
        healthy: false,
        lastError: /full|no space/,
        missing: 0,
        breaches: []
      })
      t.ok(result.early > 0, `${result.early} were acknowledged before the disk was full`)
      t.ok(result.rejected <= result.ends - result.early, `${result.rejected} waited too long and were told`)
      t.equal(result.rows, result.ends + 1, 'and charged all the same, as was one after it')
    }
  )
}
