// A process that moves a store: `node mover.ts FROM TO`. It says `go` when it begins, so that whoever kills it knows.
import { moveStore } from '../../../../core/store/move/move.ts'

const [from, to] = process.argv.slice(2) as [string, string]
process.stdout.write('go\n')
await moveStore({ from, to })
