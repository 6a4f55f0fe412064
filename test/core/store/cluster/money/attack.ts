// Attacks nodes that work on one book, at random, and says afterwards what is wrong in it.
// node .tools/node.mjs test/core/store/cluster/money/attack.ts [seconds] [seed]
import { execFileSync, fork } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { appendFileSync, readdirSync, rmSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import type { Test } from 'tap'
import { chance } from '../../../../kit/chance.ts'
import type { Chance } from '../../../../kit/chance.ts'
import { brokenIn, logFolder, moneyNode } from '../../../../kit/cluster-money.ts'
import { DatabaseProxy } from '../../../../kit/database-proxy.ts'
import { Postgres } from '../../../../kit/postgres.ts'
import { eventually } from '../../../../kit/probe.ts'
import type { Orders, Told } from './attacked-node.ts'

const lease = 3000
const names = ['one', 'two', 'three'] as const

/** What was heard of a request whose answer was shown. */
interface Seen {
  readonly charged: number
  ended: boolean
  late: boolean
}

/** The nodes, each a process behind a proxy of its own. */
class Battle {
  readonly seen = new Map<string, Seen>()
  readonly wrong: string[] = []
  readonly done: string[] = []
  readonly #late = new Set<string>()
  readonly #t: Test
  readonly #server: Postgres
  readonly #url: string
  readonly #chance: Chance
  readonly #nodes = new Map<string, ChildProcess>()
  readonly #proxies = new Map<string, DatabaseProxy>()
  readonly #folders = new Map<string, string>()

  constructor(t: Test, server: Postgres, url: string, chance: Chance) {
    this.#t = t
    this.#server = server
    this.#url = url
    this.#chance = chance
  }

  async begin(): Promise<void> {
    for (const name of names) {
      this.#proxies.set(name, await DatabaseProxy.start(this.#t, this.#server.socket))
      this.#folders.set(name, logFolder(this.#t))
    }
    await Promise.all(names.map((name) => this.#start(name)))
    this.#t.teardown(() => {
      for (const node of this.#nodes.values()) node.kill('SIGKILL')
    })
  }

  /** Starts a node; resolves when it works. */
  async #start(name: string): Promise<void> {
    const orders: Orders = {
      url: this.#proxies.get(name)!.url(this.#url),
      node: name,
      folder: this.#folders.get(name)!,
      lease,
      seed: this.#chance.below(2 ** 31)
    }
    const node = fork(join(import.meta.dirname, 'attacked-node.ts'), [JSON.stringify(orders)], {
      stdio: ['ignore', 'ignore', 'pipe', 'ipc']
    })
    this.#nodes.set(name, node)
    let said = ''
    node.stderr!.setEncoding('utf8').on('data', (text: string) => (said += text))
    node.on('exit', (code) => {
      if (code) this.wrong.push(`${name} ended with ${code}: ${said}`)
      if (code && process.env['VERBOSE']) console.error(name, 'ended', said)
    })
    const opened = Promise.withResolvers<void>()
    node.on('exit', () => opened.resolve())
    node.on('message', (told: Told) => {
      if ('opened' in told) opened.resolve()
      else if ('visible' in told)
        this.seen.set(told.visible, { charged: told.charged, ended: false, late: this.#late.has(told.visible) })
      else if ('ended' in told) {
        const seen = this.seen.get(told.ended)
        if (seen) seen.ended = true
      } else if ('late' in told) {
        this.#late.add(told.late)
        const seen = this.seen.get(told.late)
        if (seen) seen.late = true
      } else if ('wrong' in told) this.wrong.push(`${name}: ${told.wrong}`)
    })
    await opened.promise
  }

  /** One attack. */
  async strike(): Promise<void> {
    const { below, pick } = this.#chance
    const name = pick(names)
    const [proxy, node] = [this.#proxies.get(name)!, this.#nodes.get(name)!]
    const attacks: Record<string, () => Promise<void>> = {
      'the server is killed': async () => {
        await this.#server.stop()
        await sleep(below(4000))
        await this.#server.resume()
      },
      'connections are cut': async () => {
        for (let i = 0; i < 10; i++) {
          proxy.cut()
          await sleep(below(150))
        }
      },
      'answers are lost': async () => {
        proxy.loses = (sent) => /money_|select \*/.test(sent.toString('latin1')) && below(3) === 0
        await sleep(2000)
        proxy.loses = () => false
      },
      'nothing is carried': async () => {
        proxy.stand()
        await sleep(below(2 * lease))
        proxy.goOn()
      },
      'a node stands still past its lease': async () => {
        node.kill('SIGSTOP')
        await sleep(lease * 3 + below(lease))
        node.kill('SIGCONT')
      },
      'a node is killed': async () => {
        const gone = once(node, 'exit')
        node.kill('SIGKILL')
        await gone
        if (below(2) === 0) await sleep(below(lease * 4))
        // What was being written when it was killed.
        for (const file of readdirSync(this.#folders.get(name)!))
          if (below(2) === 0) appendFileSync(join(this.#folders.get(name)!, file), Buffer.from([0x9e, 0x5c, 0x1f]))
        await this.#start(name)
      },
      'the disk of the server is full': async () => {
        const sql = (text: string): Promise<unknown> => this.#server.sql(text, this.#url)
        await sql(
          `create or replace function full_disk() returns trigger language plpgsql as $$ begin
            raise 'could not extend file: No space left on device' using errcode = '53100'; end $$;
          create trigger full_disk before insert on sluice.${pick(['hold', 'price', 'cell'])} for each row execute function full_disk()`
        )
        await sleep(below(2 * lease))
        await sql('drop function full_disk cascade')
      },
      'a standby takes over that lacks what came last': async () => {
        const data = join(dirname(this.#server.socket), 'data')
        await this.#server.stop('INT')
        execFileSync('cp', ['-a', data, `${data}-copy`])
        await this.#server.resume()
        await sleep(below(3000))
        await this.#server.stop()
        rmSync(data, { recursive: true })
        execFileSync('mv', [`${data}-copy`, data])
        await this.#server.resume()
        // What a node knows that is killed before it has sent it again is lost.
        await eventually(async () => {
          const rows = await this.#server.sql('select from sluice.node where expires > clock_timestamp()', this.#url)
          return rows.length === names.length
        }, 60_000)
        await sleep(lease)
      }
    }
    const what = pick(Object.keys(attacks))
    this.done.push(`${what} (${name})`)
    if (process.env['VERBOSE']) console.error(what, name)
    await attacks[what]!()
  }

  /** Heals everything, and ends the nodes when they have ended what they began. */
  async end(): Promise<void> {
    for (const [name, node] of this.#nodes) {
      if (process.env['VERBOSE']) console.error('ends', name)
      const gone = once(node, 'exit')
      node.send('stop')
      await gone
    }
    await moneyNode(this.#t, this.#url, 'last', { folder: logFolder(this.#t), lease })
    await eventually(
      async () => (await this.#server.sql('select from sluice.hold limit 1', this.#url)).length === 0,
      90_000
    )
    // Ends that came too late are in the log of their node until it has seen what others made of them.
    for (const name of names) {
      const folder = this.#folders.get(name)!
      if (readdirSync(folder).length === 0) continue
      const node = await moneyNode(this.#t, this.#url, name, { folder, lease })
      await node.close()
    }
  }

  /** What the journal says against what was heard. */
  async check(): Promise<string[]> {
    const rows: { request_id: string; kind: string; amount: number; source: string }[] = await this.#server.sql(
      `select j.request_id, j.kind, j.source, (j.amount + coalesce((select c.amount from sluice.journal c
         where c.day = j.day and c.request_id = j.request_id and c.class = 'adjust:late'), 0))::int as amount
       from sluice.journal j where j.class = 'terminal'`,
      this.#url
    )
    const ends = Map.groupBy(rows, (row) => row.request_id)
    const found: string[] = []
    for (const [id, own] of ends) if (own.length > 1) found.push(`${id} has ${own.length} ends`)
    for (const [id, { charged, ended, late }] of this.seen) {
      const [end] = ends.get(id) ?? []
      // What only the log of a node has that was cut off, another one that ends it cannot know.
      if (late && end?.kind === 'void') continue
      const known = `charged ${charged}, ended ${ended}, late ${late}`
      if (!end) found.push(`${id} has no end: ${known}`)
      // Where the estimate of another node is the same, there is nothing to tell.
      else if (end.amount === charged || (!ended && end.source === 'upstream' && end.amount === 77)) continue
      else if (!ended || late) {
        if (end.kind !== 'settle' || end.source !== 'recovered')
          found.push(`${id} has ${JSON.stringify(end)}: ${known}`)
      } else found.push(`${id} has ${JSON.stringify(end)}: ${known}`)
    }
    return found
  }
}

/** Attacks for some seconds. Fails a test with what is wrong. */
export async function attack(t: Test, seconds: number, seed: number): Promise<void> {
  const server = await Postgres.start()
  const url = await server.database()
  const battle = new Battle(t, server, url, chance(seed))
  await battle.begin()
  const until = performance.now() + seconds * 1000
  while (performance.now() < until) {
    await sleep(500)
    await battle.strike()
  }
  await sleep(1000)
  await battle.end()
  t.comment(`${battle.seen.size} answers were shown; ${battle.done.join(', ')}`)
  t.same(await battle.check(), [], 'each has its one end')
  t.same(battle.wrong, [], 'no node says that anything is wrong')
  const broken = (await brokenIn(url)) as readonly { invariant: string }[]
  // Holds that come back after a fail-over are held whatever others have admitted meanwhile.
  const lost = battle.done.some((what) => what.startsWith('a standby'))
  t.same(
    broken.filter(({ invariant }) => !lost || invariant !== 'I6'),
    [],
    'the book is whole'
  )
}

if (process.argv[1] === import.meta.filename) {
  const [seconds = 60, seed = Math.floor(Math.random() * 2 ** 31)] = process.argv.slice(2).map(Number)
  void t.test(`attack of ${seconds} s (seed ${seed})`, { timeout: (seconds + 120) * 1000 }, (t) =>
    attack(t, seconds, seed)
  )
}
