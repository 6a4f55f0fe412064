// A short attack; a long one is a program of its own, see attack.ts.
import t from 'tap'
import { postgresMissing } from '../../../../kit/postgres.ts'
import { attack } from './attack.ts'

const seed = Number(process.env['SEED'] ?? Math.floor(Math.random() * 2 ** 31))

t.test(
  `nodes that are attacked at random end each request once (SEED=${seed})`,
  { skip: postgresMissing, timeout: 300_000 },
  (t) => attack(t, 10, seed)
)
