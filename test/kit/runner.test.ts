// Checks that the runner of the tests changes nothing that a test can see.
import { spawnSync } from 'node:child_process'
import { existsSync, globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { tell, tellEach } from '../../.tools/tap.ts'
import { Times } from '../../.tools/times.ts'
import { unitsOf } from '../../.tools/units.ts'

const root = join(import.meta.dirname, '../..')
const runner = `--import=${join(root, '.tools/resolve.ts')}`

/** What Node writes. */
function written(...args: string[]): string[] {
  const env = { ...process.env, NODE_OPTIONS: '' }
  return spawnSync(process.execPath, args, { cwd: root, env, encoding: 'utf8' }).stdout.split('\n')
}

/** The verdicts of all tests and assertions in a file. */
function verdicts(file: string, ...options: string[]): string[] {
  return written(...options, join(import.meta.dirname, file))
    .filter((line) => /^ *(not )?ok /.test(line))
    .map((line) => line.replace(/ # time=.*/, ''))
}

t.test('what nobody catches is the failure of the test that was running, as without the runner', async (t) => {
  const seen = verdicts('thrown.ts', runner)
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

t.test('files that share a process come to what each of them comes to alone', async (t) => {
  const files = ['test/kit/thrown.ts', 'test/core/wire/media-type.test.ts']
  const together = tellEach(files, written(runner, '.tools/together.ts', ...files))
  for (const [at, file] of files.entries()) {
    const { passed, failed, skipped } = tell(written(runner, file))
    t.match(together[at], { file, passed, failed, skipped, ms: Number })
  }
  t.match(together[0]!.output, /^✗ by a timer[^]*first[^]*✗ outer[^]*second/)
  t.equal(together[1]!.output, '')
  const [ended, cut] = tellEach(files, written(runner, '.tools/together.ts', files[1]!))
  t.match(
    [ended, cut],
    [
      { ms: undefined, passed: 0 },
      { ms: Number, failed: 0 }
    ],
    'and one that did not run is known'
  )
})

t.test('every file is in one process, and has that to itself where it says so', async (t) => {
  const files = globSync('test/**/*.test.ts', { cwd: root, exclude: ['**/node_modules/**'] })
  const units = unitsOf(files, new Times())
  t.same(units.flatMap((unit) => unit.files).toSorted(), files.toSorted())
  t.ok(units.length < files.length)
  const shared = units.filter((unit) => unit.files.length > 1).flatMap((unit) => unit.files)
  for (const file of shared) t.notMatch(readFileSync(join(root, file), 'utf8'), /^\/\/ Runs alone: /m, file)
})
