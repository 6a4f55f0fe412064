// The first steps of an operator: a file is written, checked and started, and the gateway is asked how it is.
import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { join } from 'node:path'
import t from 'tap'
import { starterNames, variablesOf } from '../../config/presets/starter.ts'
import { sluice, sluiceEach } from '../kit/command.ts'
import { spawnGateway } from '../kit/gateway.ts'
import { freePort } from '../kit/ports.ts'
import { lacks, runProgram } from '../kit/programs.ts'

const chat = { model: 'demo', messages: [{ role: 'user', content: 'Hello' }] }

t.test('what it writes is right for every upstream and all of them together', async (t) => {
  const folder = t.testdir()
  const env = Object.fromEntries(variablesOf(starterNames).map((name) => [name, 'secret']))
  const lines = [...starterNames, starterNames.join()].flatMap((upstreams, index) => {
    const config = join(folder, `${index}/gateway.yaml`)
    return [
      ['init', '--upstreams', upstreams, '--config', config],
      ['check', '--strict', '--config', config]
    ]
  })
  for (const [index, { code, out, err }] of (await sluiceEach(lines, { env })).entries()) {
    if (index % 2 === 0) t.match(out, /^sk-\w{43}\n$/, 'the secret alone is on standard output')
    t.equal(code, 0, `${lines[index]!.slice(0, 3).join(' ')}: ${out} ${err}`)
  }
})

t.test('options say what is in the file, whose key works at once', async (t) => {
  const [port, adminPort] = [await freePort(), await freePort()]
  const file = join(t.testdir(), 'gateway.yaml')
  const made = await sluice(
    ['init', '--config', file, '--tenant', 'umbrella', '--budget', '2.5/day', '--json'].concat(
      ['--port', `${port}`, '--admin-port', `${adminPort}`].flat()
    ),
    { alone: true }
  )
  t.equal(made.code, 0, made.err)
  const { key, models, variables } = JSON.parse(made.out) as { key: string; models: string[]; variables: string[] }
  t.same([models, variables], [['demo'], []])
  t.match(readFileSync(file, 'utf8'), createHash('sha256').update(key).digest('hex'))
  t.notMatch(readFileSync(file, 'utf8'), key)
  const down = await sluice(['health', '--config', file])
  t.match(down, { code: 1, out: '', err: /readyz does not answer: connect ECONNREFUSED/ })
  await spawnGateway(t, readFileSync(file, 'utf8'))
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
  const answer = await fetch(`http://127.0.0.1:${port}/v1/chat/completions`, {
    method: 'POST',
    headers,
    body: JSON.stringify(chat)
  })
  t.equal(answer.status, 200)
  await answer.text()
  const balances = await fetch(`http://127.0.0.1:${adminPort}/admin/v1/balances`).then((reply) => reply.json())
  const shown = (balances as { data: { scope: string; limit_usd: string | null }[] }).data
  t.same(
    shown.filter(({ scope }) => scope === 'tenant:umbrella').map((one) => one.limit_usd),
    ['2.5', null]
  )
  const [ready, live, json] = await sluiceEach([
    ['health', '--config', file],
    ['health', '--live', '--config', file],
    ['health', '--json', '--config', file]
  ])
  t.match(
    [ready, live],
    [
      { code: 0, out: 'ok\n' },
      { code: 0, out: 'ok\n' }
    ]
  )
  t.same(JSON.parse(json!.out), { url: `http://127.0.0.1:${adminPort}/readyz`, status: 'ok', reasons: [] })
})

t.test('what it cannot do, it says with the option, its value and what to do, and it writes nothing', async (t) => {
  const folder = t.testdir({ 'there.yaml': 'mine' })
  const config = join(folder, 'new.yaml')
  const cases: [string[], number, RegExp][] = [
    [['--config', join(folder, 'there.yaml')], 1, /there\.yaml is there already: name another file with --config/],
    [['--config', join(folder, 'there.yaml/x.yaml')], 1, /there\.yaml\/x\.yaml cannot be written/],
    [['--upstreams', 'opena'], 2, /--upstreams has "opena", did you mean "openai"\?: known are anthropic, /],
    [['--upstreams', 'openai,'], 2, /--upstreams has ""/],
    [['--tenant', 'a/b'], 2, /--tenant is "a\/b": it must be letters/],
    [['--budget', 'much'], 2, /--budget is "much"/],
    [['--budget', '5/hour'], 2, /--budget is "5\/hour": it must be like/],
    [['--budget', '-5/day'], 2, /needs a value|--budget is/],
    [['--host', '127.0.0.1:80/x'], 2, /--host is "127.0.0.1:80\/x"/],
    [['--port', '70000'], 2, /--port is "70000": it must be a whole number from 0 to 65535/],
    [['--port', '9090'], 2, /--port and --admin-port are both 9090/]
  ]
  const ended = await sluiceEach(
    cases.map(([args]) => ['init', ...(args.includes('--config') ? args : ['--config', config, ...args])])
  )
  for (const [index, [args, code, says]] of cases.entries()) {
    t.equal(ended[index]!.code, code, args.join(' '))
    t.match(ended[index]!.err, says)
  }
  t.throws(() => readFileSync(config), { code: 'ENOENT' })
  t.equal(readFileSync(join(folder, 'there.yaml'), 'utf8'), 'mine')
})

t.test(
  'on a terminal it asks, and asks again after an answer that it cannot use',
  { skip: lacks('python3') },
  async (t) => {
    const config = join(t.testdir(), 'gateway.yaml')
    const main = join(import.meta.dirname, '../../core/main.ts')
    const script = `
import os, pty, sys
answers = [b'nobody\\n', b'xai\\n', b'\\n', b'none\\n', b'8081\\n']
def read(fd):
    data = os.read(fd, 4096)
    if b']:' in data and answers: os.write(fd, answers.pop(0))
    return data
sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:], read)))`
    const { code, output } = await runProgram('python3', [
      '-c',
      script,
      process.execPath,
      main,
      'init',
      '--config',
      config
    ])
    t.equal(code, 0, output)
    t.match(output, /--upstreams has "nobody"[^]*Who uses it\?[^]*export XAI_API_KEY/)
    const text = readFileSync(config, 'utf8')
    t.match(text, /preset: xai[^]*acme:[^]*# budget: \{ usd: 100/)
    t.match(text, /port: 8081/)
  }
)

t.test('health tells a gateway from another program, and one that is late', async (t) => {
  const other = createServer((request, response) => void (request.url === '/livez' ? 0 : response.end('<html>')))
  await new Promise<void>((resolve) => void other.listen(0, '127.0.0.1', resolve))
  t.teardown(() => {
    other.close()
    other.closeAllConnections()
  })
  const { port } = other.address() as { port: number }
  const config = join(t.testdir(), 'gateway.yaml')
  writeFileSync(config, JSON.stringify({ admin: { port } }))
  const ended = await sluiceEach([
    ['health', '--config', config],
    ['health', '--live', '--timeout', '1', '--config', config],
    ['health', '--timeout', 'soon', '--config', config]
  ])
  t.match(ended, [
    { code: 1, err: /is no gateway: it said "<html>"/ },
    { code: 1, err: /livez did not answer in 1 s/ },
    { code: 2, err: /--timeout is "soon"/ }
  ])
})

t.test('a disk that has no room for the file keeps no part of it', async (t) => {
  const file = join(t.testdir(), 'gateway.yaml')
  const main = join(import.meta.dirname, '../../core/main.ts')
  // The limit of a file's size, in blocks of at most 1 KiB, stands for the full disk.
  const script = 'ulimit -f 1; exec "$@"'
  const args = ['-c', script, 'sh', process.execPath, main, 'init', '--yes', '--config', file]
  const ended = spawnSync('sh', args, { encoding: 'utf8' })
  t.match(ended, { status: 1, stdout: '', stderr: /gateway\.yaml cannot be written/ })
  t.notOk(existsSync(file))
})
