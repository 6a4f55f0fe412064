// The process that verifies a ledger beside a running gateway: `node verify-process.ts <file>`. It can be ended at
// once, and has a low priority. It prints what a VerifyTeller tells.
import { explain } from '../../files/troubles.ts'
import { tellingOnOutput } from './verify-lines.ts'
import { verify } from './verify.ts'

function run(file: string): void {
  const teller = tellingOnOutput()
  try {
    teller.found(verify(file, teller.progress))
  } catch (error) {
    teller.failed(explain(error, file).message)
  }
}

run(process.argv[2]!)
