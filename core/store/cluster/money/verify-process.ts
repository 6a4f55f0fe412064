// The process that verifies the book of many gateways beside a running one. It is told the URL of the database on its
// standard input, where nobody else sees it, and prints lines of JSON as that of a SQLite file does.
import { text } from 'node:stream/consumers'
import { driftOf, outcomesOf } from '../../embedded/care/verdict.ts'
import type { VerifyLine } from '../../embedded/care/verify-process.ts'
import { readAddress } from '../database/address.ts'
import { Lane } from '../database/lane.ts'
import { ofBook, verifyBook } from './verify.ts'

const mostShown = 100

function say(line: VerifyLine): void {
  process.stdout.write(`${JSON.stringify(line)}\n`)
}

async function run(url: string): Promise<void> {
  const lane = new Lane(readAddress(url), 'sluice verify', 1)
  say({ step: { table: 'journal', rows: null, of: null } })
  try {
    const breaches = await verifyBook(lane)
    const invariants = outcomesOf(breaches, ofBook).map(({ tests: _tests, ...outcome }) => outcome)
    const found = { checked: {}, invariants, breaches: breaches.slice(0, mostShown), broken: breaches.length }
    say({ found: { ...found, drift_nano: String(driftOf(breaches)) } })
  } catch (error) {
    say({ error: (error as Error).message })
  } finally {
    await lane.close()
  }
}

await run(await text(process.stdin))
