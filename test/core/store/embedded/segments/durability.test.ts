// What a store whose journal is in segments keeps when its process is killed, its disk fails or a thread dies.
import t from 'tap'
import { testDurability } from '../durable.ts'
import { forms } from '../forms.ts'

t.setTimeout(600_000)

testDurability(t, forms.journal)
