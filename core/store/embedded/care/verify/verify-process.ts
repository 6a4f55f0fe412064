// The process that verifies a ledger beside a running gateway: `node verify-process.ts <file>`. It can be ended at
// once, and has a low priority. It prints what a VerifyTeller tells.
import { explain } from '../../files/troubles.ts'
import { tellingOnOutput } from './verify-lines.ts'
import { verifyInThreads } from './verify.ts'

async function run(file: string): Promise<void> {
  const teller = tellingOnOutput()
  try {
    teller.found(await verifyInThreads(file, teller.progress))
  } catch (error) {
    teller.failed(explain(error, file).message)
  }
}

await run(process.argv[2]!)
