// One node of measure-edge.ts, in a process of its own, as gateways are: it asks for its part of the requests.
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Scope } from '../../../../../core/catalogue/caller.ts'
import { usualSizing } from '../../../../../core/store/cluster/money/slices/slice.ts'
import { moneyNode } from '../../../../kit/cluster-money.ts'
import { scope } from '../../embedded/sample.ts'
import { requestFor } from './oracle.ts'

/** What it is to do. */
export interface Part {
  readonly url: string
  readonly node: string
  readonly folder: string
  readonly requests: number
  readonly atOnce: number
  /** How many requests the budget of the tenant carries, those of all nodes together. */
  readonly room: number
  readonly slices: boolean
}

/** What came of it. Times are in milliseconds, CPU time in microseconds. */
export interface Outcome {
  readonly inMemory: number
  /** How long it took until the database had those. */
  readonly written: readonly number[]
  readonly decided: readonly number[]
  readonly refused: readonly number[]
  readonly cpu: number
  /** When its last request was answered, from the beginning on. */
  readonly done: number
}

const { url, node, folder, requests, atOnce, room, slices } = JSON.parse(process.argv[2]!) as Part
const ends: (() => unknown)[] = []
const sizing = slices ? usualSizing : { ...usualSizing, idle: -1 }
const owner = { teardown: (end: () => unknown) => void ends.push(end) }
const { ledger } = await moneyNode(owner, url, node, { folder, sizing })
const others = [scope('project', 'acme/web', 10n ** 15n, 'day'), scope('key', 'laptop', 10n ** 15n)]
const scopes = [scope('tenant', 'acme', BigInt(room) * 10n, 'month'), ...others]

/** Balances are made and statements planned. */
for (let wave = 0; wave < 10; wave++)
  await Promise.all(
    Array.from({ length: atOnce }, async () =>
      (await ledger.reserve(requestFor(scopes, 0n, { time: Date.now() }))).void()
    )
  )
/** And code is compiled: as many have raced before for a budget that ended, as with a gateway that has run for long. */
const before = [scope('tenant', 'before', BigInt(room) * 10n, 'month'), scope('key', 'before', 10n ** 15n)]
await race(before)
await sleep(4000)
process.send!('ready')
await once(process, 'message')

const cpu = process.cpuUsage()
const began = performance.now()
const { inMemory, durable, written, decided, refused, done } = await race(scopes)
await Promise.all(durable)
const { user, system } = process.cpuUsage(cpu)
process.send!({ inMemory, written, done: done - began, decided, refused, cpu: user + system } satisfies Outcome)
await once(process, 'message')
for (const end of ends.reverse()) await end()
process.disconnect()

interface Race extends Pick<Outcome, 'inMemory' | 'decided' | 'refused'> {
  readonly durable: readonly Promise<void>[]
  readonly written: readonly number[]
  /** When the last was answered, by performance.now(). */
  readonly done: number
}

/** All requests of this node, so many at a time. What is held stays so. */
async function race(of: readonly Scope[]): Promise<Race> {
  const [decided, refused, written]: [number[], number[], number[]] = [[], [], []]
  const durable: Promise<void>[] = []
  let [inMemory, next] = [0, 0]
  const client = async (): Promise<void> => {
    while (next++ < requests) {
      const asked = performance.now()
      try {
        const made = ledger.reserve(requestFor(of, 10n, { time: Date.now() }))
        if (!(made instanceof Promise)) {
          inMemory++
          durable.push(made.durable.then(() => void written.push(performance.now() - asked)))
        } else {
          await made
          decided.push(performance.now() - asked)
        }
      } catch {
        refused.push(performance.now() - asked)
      }
    }
  }
  await Promise.all(Array.from({ length: atOnce }, client))
  return { inMemory, durable, written, decided, refused, done: performance.now() }
}
