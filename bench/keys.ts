// Keys: what a hundred thousand keys in use cost. CPU time per request beside one key, and how long clients wait around
// a reload.
import { Connection } from './connection.ts'
import { contest, cpuReport, run as put } from './contest.ts'
import type { Rig } from './contest.ts'
import { answerSize, requestSize, smallJson } from './j1.ts'
import { start } from './line-up.ts'
import { answerBody, numberedKey, requestBody, requestBytes } from './payload.ts'
import type { Report } from './report.ts'
import { ExpectedBody } from './response.ts'
import { others, startSluice } from './sluice.ts'
import type { Sluice, Variant } from './sluice.ts'
import { show, spread } from './spread.ts'

const many = 100_000
const name = '100,000 keys'
/** How often the configuration is reloaded, and how many answers come after each time. */
const reloads = 5
const answersAfter = 20

export const title = 'Keys: the load of J1 by one key, and by 100,000 stored keys in turn; a reload with these'

/** Runs the scenario. The keys have limits and budgets, as the one key has. */
export async function run(rig: Rig): Promise<Report> {
  const variant: Partial<Variant> = { name, storedKeys: many }
  await using gateways = await start<Sluice>([
    () => startSluice(rig, { name: 'one key' }),
    () => startSluice(rig, variant),
    ...others(rig, variant)
  ])
  const crowded = gateways.list.slice(1)
  for (const gateway of crowded) {
    gateway.keys = many
    // What is made when a key asks for the first time is no part of the figures.
    for (let asked = 0; asked < many;) asked += (await put({ ...rig, warm: 0 }, smallJson, gateway)).count
  }
  const report = cpuReport('keys', title, smallJson, await contest(rig, 'keys', smallJson, gateways.list), 'difference')
  const notes = [...report.notes]
  for (const gateway of crowded) notes.push(await waits(rig, gateway))
  return { ...report, notes }
}

/** Says how long a client waited that asked one request after another while the configuration was reloaded. */
async function waits(rig: Rig, gateway: Sluice): Promise<string> {
  await rig.upstream.child.ask<object>(smallJson.behaviour(rig))
  const first: number[] = []
  const longest: number[] = []
  let key = 0
  for (let round = 0; round < reloads; round++) {
    let over = false
    const reloading = gateway.reload().then(() => (over = true))
    const during: number[] = []
    const after: number[] = []
    while (after.length < answersAfter) {
      const into = over ? after : during
      into.push(await answer(gateway.port, numberedKey(++key)))
    }
    await reloading
    first.push(after[0]!)
    longest.push(Math.max(...during, ...after))
  }
  return (
    `${gateway.name}: the first answer after a reload took ${show(spread(first), 1)} ms, the longest during one and ` +
    `just after it ${show(spread(longest), 1)} ms.`
  )
}

/** The time of one answer on a connection of its own, in milliseconds. */
async function answer(port: number, key: string): Promise<number> {
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  const began = performance.now()
  const connection = new Connection(port, new ExpectedBody(answerBody(answerSize)), resolve, (why) =>
    reject(new Error(why))
  )
  connection.send(requestBytes(requestBody(requestSize, false), key))
  await promise
  connection.close()
  return performance.now() - began
}
