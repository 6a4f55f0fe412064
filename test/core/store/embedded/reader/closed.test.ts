// Questions that come when the store is closed: they begin no thread, which would keep the process from ending.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'

const root = join(import.meta.dirname, '../../../../..')

t.test('a process whose store was asked something after its end ends too', async (t) => {
  const folder = t.testdir()
  const program = join(folder, 'late.mjs')
  const text = `
    import { openStore } from ${JSON.stringify(join(root, 'core/store/embedded/store.ts'))}
    const store = await openStore({ file: ${JSON.stringify(join(folder, 'sluice.db'))}, durability: 'process' })
    await store.requests.list({ limit: 1 })
    await store.close()
    const late = await store.requests.list({ limit: 1 }).then(() => 'answered', (error) => error.message)
    console.log(late)
  `
  writeFileSync(program, text)
  const child = spawn(process.execPath, [program], { stdio: ['ignore', 'pipe', 'pipe'] })
  t.teardown(() => child.kill('SIGKILL'))
  const said: string[] = []
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (bytes: Buffer) => void said.push(String(bytes)))
  // Without an end the file fails by its own time.
  const [code] = (await once(child, 'close')) as [number | null]
  t.equal(code, 0, said.join(''))
  t.match(said.join(''), /sluice\.db could not be read: the store is closed/)
})
