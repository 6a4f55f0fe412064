// The lines of the README's table of endpoints, run by a shell against the gateway that the shipped file describes.
import { execFile } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { operations } from '../../core/operations/index.ts'
import { gateway } from '../kit/gateway.ts'

t.setTimeout(240_000)

const root = join(import.meta.dirname, '../..')
const run = promisify(execFile)
/** A picture of one point. */
const png = Buffer.from(
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==',
  'base64'
)

t.test('every endpoint has a line in the README, and every line works', async (t) => {
  const readme = readFileSync(join(root, 'README.md'), 'utf8')
  const section = /## Endpoints\n([\s\S]*?)\n## /.exec(readme)![1]!
  const commands = [...section.matchAll(/\| `(curl .*?)` \|$/gm)].map(([, command]) => command!)
  const methods = (path: string): string => path.replace(/^.*:(?=\w+$)/, ':').replace(/\{(\w+)\.\.\.\}/, '{$1}')
  for (const { paths } of operations) t.ok(section.includes(methods(paths[0]!)), paths[0]!)

  const shipped = readFileSync(join(root, 'gateway.yaml'), 'utf8')
    .replace('port: 8080', 'port: 0')
    .replace('port: 9090', 'port: 0')
    .replace('./data/sluice.db', './sluice.db')
    .replace('rps: 10', 'rps: 1000')
  const { url } = await gateway(t, shipped)
  const folder = mkdtempSync(join(tmpdir(), 'sluice-readme-'))
  t.teardown(() => rmSync(folder, { recursive: true }))
  writeFileSync(join(folder, 'boat.png'), png)
  const made = /^R=.*?\)(?= +#)/m.exec(readme)![0]
  const setting = `S=${url} K='Authorization: Bearer sk-demo-alice-000000000000' J='Content-Type: application/json'`
  for (const command of commands) {
    const { stdout } = await run(
      'sh',
      [
        '-c',
        `${setting}; ${command.includes('$R') ? `${made};` : ''} ${command.replace('curl ', 'curl -sS --fail-with-body ')}`
      ],
      { cwd: folder, encoding: 'utf8' }
    ).catch((error: { stdout: string; message: string }) => ({ stdout: `failed: ${error.stdout} ${error.message}` }))
    t.notMatch(stdout, /^(failed|\{"error":)/, command)
  }
  t.match(readFileSync(join(folder, 'hello.wav'), 'latin1').slice(0, 4), 'RIFF')
})
