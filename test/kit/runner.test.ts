// Checks that the runner of the tests changes nothing that a test can see.
import { spawnSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'

const root = join(import.meta.dirname, '../..')

/** The verdicts of all tests and assertions in a file. */
function verdicts(file: string, ...options: string[]): string[] {
  const env = { ...process.env, NODE_OPTIONS: '' }
  const { stdout } = spawnSync(process.execPath, [...options, join(import.meta.dirname, file)], {
    env,
    encoding: 'utf8'
  })
  return stdout
    .split('\n')
    .filter((line) => /^ *(not )?ok /.test(line))
    .map((line) => line.replace(/ # time=.*/, ''))
}

t.test('what nobody catches is the failure of the test that was running, as without the runner', async (t) => {
  const seen = verdicts('thrown.ts', `--import=${join(root, '.tools/resolve.ts')}`)
  t.same(seen, verdicts('thrown.ts'))
  t.match(
    seen.join('\n'),
    /not ok 1 - first\nnot ok 1 - by a timer\n +not ok 1 - second\n +not ok 1 - by a promise\nnot ok 2 - outer\n[^]* ok 1 - is well\nok \d - by nobody$/
  )
})

t.test('the files that the runner starts first are there', (t) => {
  const usual = JSON.parse(readFileSync(join(root, '.tools/test-times.json'), 'utf8')) as Record<string, number>
  const files = Object.keys(usual)
  t.ok(files.length > 50)
  t.same(
    files.filter((file) => !existsSync(join(root, file))),
    []
  )
  t.end()
})
