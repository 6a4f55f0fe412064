// Sources that mean ill, or are ill: what they give and how long they take must hurt nobody but the channel.
import { existsSync, readFileSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import type { Test } from 'tap'
import { askOf } from '../../../core/credentials/ask.ts'
import { Credential } from '../../../core/credentials/credential.ts'
import { Credentials } from '../../../core/credentials/credentials.ts'
import type { CredentialSource } from '../../../core/credentials/source.ts'
import type { Logger } from '../../../core/telling/log.ts'
import { eventually } from '../../kit/probe.ts'
import { tokenServer } from '../../kit/token-server.ts'
import type { Answer, TokenServer } from '../../kit/token-server.ts'

t.setTimeout(600_000)

/** A credential that is kept fresh until the test is over, and all that it told the log. */
function kept(t: Test, source: CredentialSource): { credential: Credential; told: string[] } {
  const told: string[] = []
  const write = (message: string, fields?: object): void => void told.push(JSON.stringify({ message, ...fields }))
  const log = { debug: write, info: write, warn: write, error: write } as unknown as Logger
  const credential = new Credential(source, log)
  credential.users.push('up')
  credential.start()
  t.teardown(() => credential.stop())
  return { credential, told }
}

function oauth2({ url }: TokenServer, clientSecret = 'hunter_secret'): CredentialSource {
  return {
    kind: 'oauth2',
    tokenUrl: `${url}/token`,
    clientId: 'hunter_id',
    clientSecret,
    clientAuth: 'post',
    scope: undefined,
    parameters: {}
  }
}

function command(folder: string, script: string): CredentialSource {
  return { kind: 'command', command: ['sh', '-c', script], every: 60_000, folder }
}

async function fault(source: CredentialSource, signal = new AbortController().signal): Promise<string> {
  return askOf(source)(signal).then(
    () => 'none',
    (error: Error) => error.message
  )
}

function lives(pid: number): boolean {
  try {
    process.kill(pid, 0)
    // What nobody waited for yet is listed, and runs no more.
    return !/^\d+ \(.*\) Z/.test(readFileSync(`/proc/${pid}/stat`, 'utf8'))
  } catch {
    return false
  }
}

t.test('an end beyond all time, or that is no time, is survived and told', async (t) => {
  for (const end of [{ expires_in: 1e15 }, { expires_in: '999999999999999' }, { expires_on: 1e300 }]) {
    const server = await tokenServer(t, () => ({ body: { access_token: 'hunter', ...end } }))
    const { credential, told } = kept(t, oauth2(server))
    t.equal(await credential.wait(), 'hunter')
    t.ok(credential.state.expiresAt! > Date.now())
    t.ok(new Date(credential.state.expiresAt!).toISOString())
    server.answering = () => ({ status: 500, body: {} })
    t.equal(await credential.instead('hunter'), undefined)
    t.match(told, [/could not be renewed/])
    t.match(credential.state.trouble, { reason: 'the token server answered with status 500' })
  }
})

t.test('keys of AWS whose end is no time are no keys, and nobody is asked for them without rest', async (t) => {
  const body = { AccessKeyId: 'AKID', SecretAccessKey: 'hunter', Token: 'session', Expiration: 'soon' }
  const server = await tokenServer(t, () => ({ body }))
  const nowhere = join(t.testdir(), 'none')
  const set: Record<string, string> = {
    AWS_CONTAINER_CREDENTIALS_FULL_URI: `${server.url}/creds`,
    AWS_SHARED_CREDENTIALS_FILE: nowhere,
    AWS_CONFIG_FILE: nowhere
  }
  Object.assign(process.env, set)
  t.teardown(() => Object.keys(set).forEach((name) => delete process.env[name]))
  const { credential } = kept(t, {
    kind: 'aws',
    region: 'us-east-1',
    service: 'bedrock',
    profile: undefined,
    role: undefined
  })
  await eventually(() => credential.state.trouble !== undefined, 20_000)
  t.equal(credential.current, undefined)
  const { failed } = credential.state.asked
  await sleep(500)
  t.ok(credential.state.asked.failed <= failed + 2)
})

t.test('tokens of a moment do not make the timer ask without rest', async (t) => {
  let n = 0
  const server = await tokenServer(t, () => ({ body: { access_token: `hunter-${++n}`, expires_in: 0.2 } }))
  const { credential } = kept(t, oauth2(server))
  const began = Date.now()
  await eventually(() => credential.state.asked.given + credential.state.asked.failed >= 4, 30_000)
  t.ok(server.asked.length <= 2 + (Date.now() - began) / 450, `${server.asked.length} in ${Date.now() - began} ms`)
})

t.test('a token server that repeats what it was sent shows none of it', async (t) => {
  const server = await tokenServer(t, ({ form }) => ({
    status: 400,
    body: { error: form['client_secret'], error_description: form['client_secret'], error_uri: form['client_id'] }
  }))
  t.equal(await fault(oauth2(server)), 'the token server answered with status 400')
  const headers = { 'www-authenticate': 'hunter', location: 'http://hunter.example/' }
  for (const status of [201, 204, 301, 307, 308, 401, 429, 500]) {
    server.answering = () => ({ status, headers, body: status === 204 ? '' : { access_token: 'hunter' } })
    t.equal(await fault(oauth2(server)), `the token server answered with status ${status}`)
  }
  const bombs: [string, Answer][] = [
    ['deep JSON', { body: '['.repeat(60_000) }],
    ['a list', { body: [{ access_token: 'hunter' }] }],
    ['what is no gzip', { headers: { 'content-encoding': 'gzip' }, body: 'hunter' }],
    ['a large head', { headers: { 'x-large': 'h'.repeat(60_000) }, body: { access_token: 'hunter' } }],
    ['a token that is a number', { body: { access_token: 12345 } }],
    ['a token with a name of an object', { body: { access_token: { toString: 'hunter' } } }],
    ['a life that is no number', { body: { access_token: 'a', expires_in: {} } }]
  ]
  for (const [what, answer] of bombs) {
    server.answering = () => answer
    const heard = await fault(oauth2(server))
    t.match(heard, /^the token server/, what)
    t.notMatch(heard, /hunter/, what)
  }
})

t.test('a command that never ends is ended with all that it has started', async (t) => {
  const folder = t.testdir()
  const pidOf = (name: string): number => Number(readFileSync(join(folder, name), 'utf8'))
  const timeout = new AbortController()
  const heard = fault(command(folder, 'sleep 300 & echo $! > child.pid; echo $$ > own.pid; sleep 300'), timeout.signal)
  await eventually(() => existsSync(join(folder, 'own.pid')) && pidOf('own.pid') > 0)
  timeout.abort()
  t.equal(await heard, 'the command did not end in time')
  await eventually(() => !lives(pidOf('own.pid')) && !lives(pidOf('child.pid')))
})

t.test('a command that prints without end is ended, whatever it has started', async (t) => {
  const folder = t.testdir()
  t.equal(
    await fault(command(folder, 'echo $$ > own.pid; sleep 300 & echo $! > child.pid; yes hunter')),
    'the command printed more than 65536 bytes'
  )
  const pids = ['own.pid', 'child.pid'].map((name) => Number(readFileSync(join(folder, name), 'utf8')))
  await eventually(() => !pids.some(lives))
})

t.test('what a command says beside the credential is not read, however much it is', async (t) => {
  const folder = t.testdir()
  const noisy = 'yes hunter | head -c 3000000 >&2; echo sk-of-the-command'
  t.same(await askOf(command(folder, noisy))(new AbortController().signal), {
    secret: 'sk-of-the-command',
    expiresAt: undefined
  })
  const failing = await fault(command(folder, 'echo hunter >&2; echo hunter; kill -9 $$'))
  t.equal(failing, 'the command was ended by SIGKILL')
})

t.test('a file that was not there, vanishes, is empty for a moment, and comes back by any way', async (t) => {
  const folder = t.testdir()
  const file = join(folder, 'key')
  const { credential } = kept(t, { kind: 'file', file })
  await eventually(() => credential.state.trouble !== undefined)
  // Failures have made the pause between two questions long by then: it is the look at the file that notices.
  await eventually(() => credential.state.asked.failed >= 3, 20_000)
  const until = async (key: string): Promise<void> => eventually(() => credential.current === key, 20_000)

  writeFileSync(file, 'sk-first\n')
  await until('sk-first')
  rmSync(file)
  await sleep(600)
  t.equal(credential.current, 'sk-first')
  writeFileSync(file, 'sk-second\n')
  await until('sk-second')

  writeFileSync(file, '')
  await eventually(() => credential.state.trouble?.reason.endsWith('is empty') === true, 20_000)
  t.equal(credential.current, 'sk-second', 'the old one stays in use')
  writeFileSync(file, 'sk-third\n')
  await until('sk-third')
  t.equal(credential.state.trouble, undefined)

  writeFileSync(`${file}.new`, 'sk-fourth\n')
  renameSync(`${file}.new`, file)
  await until('sk-fourth')
})

t.test('a mounted Secret is replaced by a swap of the link to its folder', async (t) => {
  const folder = t.testdir({ first: { key: 'sk-first\n' }, second: { key: 'sk-second\n' } })
  symlinkSync('first', join(folder, '..data'))
  symlinkSync(join('..data', 'key'), join(folder, 'key'))
  const { credential } = kept(t, { kind: 'file', file: join(folder, 'key') })
  await eventually(() => credential.current === 'sk-first')
  symlinkSync('second', join(folder, '..tmp'))
  renameSync(join(folder, '..tmp'), join(folder, '..data'))
  await eventually(() => credential.current === 'sk-second', 20_000)
  t.equal(credential.state.asked.failed, 0)
})

t.test('a file that is replaced while a server is asked by what it was before is read once more', async (t) => {
  const user = { type: 'authorized_user', client_id: 'id', client_secret: 'hunter' }
  const first = Promise.withResolvers<void>()
  const server = await tokenServer(t, async ({ form }) => {
    if (form['refresh_token'] === 'old') await first.promise
    return { body: { access_token: `by-${form['refresh_token']}`, expires_in: 3600 } }
  })
  const file = join(t.testdir(), 'user.json')
  const write = (refresh: string): void =>
    writeFileSync(file, JSON.stringify({ ...user, refresh_token: refresh, token_uri: `${server.url}/token` }))
  write('old')
  const { credential } = kept(t, { kind: 'gcp', file, scope: 's', hosts: ['127.0.0.1'], metadata: '127.0.0.1:1' })
  await eventually(() => server.asked.length === 1)
  write('new')
  // Two looks notice it and wait until it stands still; the first question is still under way.
  await sleep(2000)
  first.resolve()
  await eventually(() => credential.current === 'by-new', 20_000)
})

t.test('a source that hangs keeps nobody from stopping, and its channels have their sentence', async (t) => {
  const server = await tokenServer(t, () => 'hang')
  const told: string[] = []
  const log = { error: (message: string) => told.push(message), warn() {}, info() {}, debug() {} } as unknown as Logger
  const all = new Credentials(log)
  const end = all.use([{ name: 'up', living: { source: oauth2(server), header: 'authorization', prefix: 'Bearer ' } }])
  await eventually(() => all.reasons.length === 1, 30_000)
  t.match(all.reasons, [/^credential of up: its source did not answer in time, since .*; there is none$/])
  end()
  t.same(all.reasons, [])
  t.equal(told.length, 1)
})
