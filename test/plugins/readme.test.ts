// The plugin that plugins/WRITING.md teaches to write, taken from that page and built as it says.
import { execFile } from 'node:child_process'
import { cpSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { promisify } from 'node:util'
import t from 'tap'
import { parse } from 'yaml'
import type { Plugin } from '../../core/contract/contract.ts'
import { stall, Upstream } from '../kit/upstream.ts'
import { channelTo, chatAnswer, Workbench } from '../kit/workbench.ts'

const root = join(import.meta.dirname, '../..')
const page = readFileSync(join(root, 'plugins/WRITING.md'), 'utf8')
const blocks = [...page.matchAll(/^```(?:ts|yaml)\n(.*?)^```$/gms)].map(([, code]) => code!)
const [plugin, importLine, listLine, test, yaml] = blocks as [string, string, string, string, string]

/** A copy of the sources with the four steps done in it. */
function build(folder: string): string {
  for (const name of ['core', 'config', 'plugins', 'test/kit'])
    cpSync(join(root, name), join(folder, name), { recursive: true })
  symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'))
  cpSync(join(root, 'package.json'), join(folder, 'package.json'))
  const write = (path: string, text: string): void => {
    mkdirSync(dirname(join(folder, path)), { recursive: true })
    writeFileSync(join(folder, path), text)
  }
  const index = readFileSync(join(root, 'plugins/index.ts'), 'utf8')
  write('plugins/tenant-cap/index.ts', plugin)
  write(
    'plugins/index.ts',
    index.replace(/^import usageMeter/m, `${importLine}$&`).replace(/^const list: .*\n/m, listLine)
  )
  write('test/plugins/tenant-cap.test.ts', test)
  return folder
}

t.test('the page has the blocks that this test expects', (t) => {
  t.equal(blocks.length, 5)
  t.ok(plugin.split('\n').length <= 31, `the plugin has ${plugin.split('\n').length - 1} lines`)
  t.end()
})

const run = promisify(execFile)

/** Runs the page's test of a plugin in the copy; TAP as it came, also when it says that something failed. */
async function runTest(folder: string, source: string): Promise<string> {
  writeFileSync(join(folder, 'plugins/tenant-cap/index.ts'), source)
  const options = { cwd: folder, timeout: 600_000, env: { ...process.env, TAP: '1' } }
  const { stdout } = await run(process.execPath, ['test/plugins/tenant-cap.test.ts'], options).catch(
    (error: { stdout: string }) => error
  )
  return stdout
}

t.test('built as the page says, its own test passes', { timeout: 600_000 }, async (t) => {
  const passed = await runTest(build(t.testdir({})), plugin)
  t.match(passed, /^ok 1 - tenant-cap: options are documented and checked/m)
  t.match(passed, /^ok 2 - tenant-cap: whatever it takes it gives back/m)
  t.match(passed, /^ok \d - tenant-cap: an answer is what it is, in whatever pieces/m)
  t.match(passed, /^ok \d - tenant-cap: a generation leaves nothing behind/m)
  t.notMatch(passed, /not ok/)
})

t.test('the contract notices what an author may forget', { timeout: 600_000 }, async (t) => {
  const folder = build(t.testdir({}))
  const slips: [string, string | RegExp, string, RegExp][] = [
    ['giving back', /^ *exchange\.defer.*\n/m, '', /not ok \d+ - a streamed request passes at first/],
    [
      'giving back when the client has left',
      'defer(() => ',
      "defer(({ kind }) => kind === 'aborted' ? undefined : ",
      /not ok \d+ - a plain request passes after a client that leaves before the answer/
    ],
    [
      'stopping a timer',
      'return {',
      'setTimeout(() => {}, 4000)\n    return {',
      /not ok \d - tenant-cap: a generation leaves nothing behind/
    ],
    ['a sentence', 'Most requests of one tenant at one time.', 'limit', /not ok \d+ - limit has a description/]
  ]
  for (const [forgotten, from, to, complaint] of slips)
    t.match(await runTest(folder, plugin.replace(from, to)), complaint, forgotten)
})

t.test('in the chain of the page it does what it is for', async (t) => {
  const folder = build(t.testdir({}))
  const { plugins } = (await import(pathToFileURL(join(folder, 'plugins/index.ts')).href)) as {
    plugins: ReadonlyMap<string, Plugin>
  }
  t.ok(plugins.has('tenant-cap'), 'it is in the list')
  // Of this copy's core only types are used, so that it meets the slots of the core under test.
  writeFileSync(
    join(folder, 'plugins/tenant-cap/here.ts'),
    plugin.replaceAll('../../core/', `${pathToFileURL(root).href}/core/`)
  )
  const { default: tenantCap } = (await import(pathToFileURL(join(folder, 'plugins/tenant-cap/here.ts')).href)) as {
    default: Plugin
  }
  const { chain } = parse(yaml) as { chain: Record<string, object>[] }
  const upstream = await Upstream.start(t)
  const channels = { a: channelTo(upstream) }
  const quiet = chain.map((entry) =>
    'log' in entry ? { log: { sink: 'none' } } : 'tenant-cap' in entry ? { 'tenant-cap': { limit: 1 } } : entry
  )
  const bench = await Workbench.open(t, { channels, chain: quiet }, { more: [tenantCap] })
  upstream.script(stall())
  const first = bench.start()
  await upstream.request()
  const second = await bench.send()
  t.equal(second.status, 429)
  t.equal(second.headers['retry-after'], '1')
  first.client.leave()
  await first.answer
  upstream.json(chatAnswer())
  t.equal((await bench.send()).status, 200)
  const [capped, others] = [true, false].map((is) => quiet.filter((entry) => 'tenant-cap' in entry === is))
  await t.rejects(
    Workbench.open(t, { channels, chain: [...capped!, ...others!] }, { more: [tenantCap] }),
    /tenant-cap needs caller: put it below auth/
  )
})
