// A process that takes a store over unasked, for a test to kill: `node taking.ts <file>`. It says when it is ready.
import { writeSync } from 'node:fs'
import { openStore } from '../../../../../core/store/embedded/store.ts'

const [file = ''] = process.argv.slice(2)
writeSync(1, 'begun\n')
const store = await openStore({ file, durability: 'process', takesOver: 1_000_000 })
writeSync(1, 'ready\n')
await store.close()
