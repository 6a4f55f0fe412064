// The process that verifies the book of many gateways beside a running one. It is told the URL of the database on its
// standard input, where nobody else sees it, and prints what a VerifyTeller tells, as that of a SQLite file does.
import { text } from 'node:stream/consumers'
import { tellingOnOutput } from '../../../embedded/care/verify/verify-lines.ts'
import { readAddress } from '../../database/address.ts'
import { Lane } from '../../database/lane.ts'
import { ofBook, verifyBook } from './verify.ts'

async function run(url: string): Promise<void> {
  const lane = new Lane(readAddress(url), 'sluice verify', 1)
  const teller = tellingOnOutput()
  try {
    teller.found(await verifyBook(lane, teller.progress), ofBook)
  } catch (error) {
    teller.failed((error as Error).message)
  } finally {
    await lane.close()
  }
}

await run(await text(process.stdin))
