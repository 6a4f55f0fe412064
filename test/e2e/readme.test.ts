// The lines of docs/ENDPOINTS.md, run by a shell against the gateway that the shipped file describes.
import { execFile } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { operations } from '../../core/operations/index.ts'
import { gateway } from '../kit/gateway.ts'

t.setTimeout(600_000)

const root = join(import.meta.dirname, '../..')
const run = promisify(execFile)
t.test('every endpoint has a line in docs/ENDPOINTS.md, and every line works', async (t) => {
  const page = readFileSync(join(root, 'docs/ENDPOINTS.md'), 'utf8')
  const commands = [...page.matchAll(/\| `(curl .*?)` \|$/gm)].map(([, command]) => command!)
  const methods = (path: string): string => path.replace(/^.*:(?=\w+$)/, ':').replace(/\{(\w+)\.\.\.\}/, '{$1}')
  for (const { paths } of operations) t.ok(page.includes(methods(paths[0]!)), paths[0]!)

  const shipped = readFileSync(join(root, 'gateway.yaml'), 'utf8')
    .replace('port: 8080', 'port: 0')
    .replace('port: 9090', 'port: 0')
    .replace('./data/sluice.db', './sluice.db')
    .replace('rps: 10', 'rps: 1000')
  const { url } = await gateway(t, shipped)
  const folder = mkdtempSync(join(tmpdir(), 'sluice-readme-'))
  t.teardown(() => rmSync(folder, { recursive: true }))
  // Whoever copies the lines has no other flags than these; only what curl tells of its progress is left out here.
  writeFileSync(join(folder, '.curlrc'), 'silent\nshow-error\n')
  const env = { ...process.env, CURL_HOME: folder }
  const setting = /```sh\n(S=[\s\S]*?)```/.exec(page)![1]!.replace('http://127.0.0.1:8080', url)
  for (const command of commands) {
    const { stdout, stderr } = await run('sh', ['-c', `${setting}\n${command}`], {
      cwd: folder,
      encoding: 'utf8',
      env
    }).catch((error: { stdout: string; stderr: string; message: string }) => error)
    t.notMatch(stdout, /^\{"(?:type":")?error"/, command)
    t.notMatch(stderr, /curl: \((?!22\))/, command)
  }
  const begins = (name: string, from: number, to: number): string =>
    readFileSync(join(folder, name)).toString('latin1', from, to)
  t.match(begins('boat.png', 1, 4), 'PNG')
  t.match(begins('hello.wav', 0, 4), 'RIFF')
  for (const name of ['boat.mp4', 'sail.mp4']) t.match(begins(name, 4, 8), 'ftyp', name)
})
