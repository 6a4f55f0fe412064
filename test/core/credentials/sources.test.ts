// Each kind of source, asked for one credential: what is sent, what is believed, and what is said when it is not.
import { SignatureV4 } from '@smithy/signature-v4'
import { createHash, createHmac, createVerify, generateKeyPairSync } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import type { Test } from 'tap'
import { askOf } from '../../../core/credentials/ask.ts'
import { SourceFault } from '../../../core/credentials/grant.ts'
import type { Grant } from '../../../core/credentials/grant.ts'
import type { CredentialSource } from '../../../core/credentials/source.ts'
import { tokenServer, tokens } from '../../kit/token-server.ts'
import type { Answer } from '../../kit/token-server.ts'

const never = new AbortController().signal

function ask(source: CredentialSource, signal = never): Promise<Grant> {
  return askOf(source)(signal)
}

/** What is said of a source that gives nothing. */
async function fault(source: CredentialSource, signal = never): Promise<string> {
  const error = await ask(source, signal).then(
    () => undefined,
    (thrown: unknown) => thrown
  )
  return error instanceof SourceFault ? error.message : `no fault of the source: ${String(error)}`
}

function oauth2(url: string, more: Partial<Extract<CredentialSource, { kind: 'oauth2' }>> = {}): CredentialSource {
  return {
    kind: 'oauth2',
    tokenUrl: `${url}/token`,
    clientId: 'an id',
    clientSecret: 'hunter:2+ü',
    clientAuth: 'basic',
    scope: 'models',
    parameters: { audience: 'https://api.example.com' },
    ...more
  }
}

/** When a grant ends, in seconds from now. */
function life({ expiresAt }: Grant): number {
  return Math.round((expiresAt! - Date.now()) / 1000)
}

/** The hash that AWS's library wants. */
class Sha256 {
  readonly #hash
  constructor(secret?: string | Uint8Array) {
    this.#hash = secret === undefined ? createHash('sha256') : createHmac('sha256', secret)
  }
  update(data: string | Uint8Array): void {
    this.#hash.update(data)
  }
  async digest(): Promise<Uint8Array> {
    return this.#hash.digest()
  }
}

function jwt(claims: object): string {
  return [{ alg: 'none' }, claims, {}].map((part) => Buffer.from(JSON.stringify(part)).toString('base64url')).join('.')
}

t.test('a client of OAuth shows its secret in the header or in the form', async (t) => {
  const server = await tokenServer(t, tokens(3600))
  const grant = await ask(oauth2(server.url))
  t.equal(grant.secret, 'token-number-1')
  t.ok(life(grant) > 3500 && life(grant) <= 3600)
  const [first] = server.asked
  t.match(first, { method: 'POST', target: '/token' })
  t.same(first!.form, { grant_type: 'client_credentials', scope: 'models', audience: 'https://api.example.com' })
  const [scheme, pair] = first!.headers.authorization!.split(' ')
  t.equal(scheme, 'Basic')
  t.equal(Buffer.from(pair!, 'base64').toString(), 'an+id:hunter%3A2%2B%C3%BC')

  await ask(oauth2(server.url, { clientAuth: 'post', scope: undefined, parameters: {} }))
  t.equal(server.asked[1]!.headers.authorization, undefined)
  t.same(server.asked[1]!.form, {
    grant_type: 'client_credentials',
    client_id: 'an id',
    client_secret: 'hunter:2+ü'
  })
})

t.test('the end of a token is what the server says, or the token itself when that is earlier', async (t) => {
  const server = await tokenServer(t, tokens(0))
  const lives = async (body: object): Promise<number> => {
    server.answering = () => ({ body: { access_token: 'a-token', ...body } })
    return life(await ask(oauth2(server.url)))
  }
  const near = (seconds: number, wanted: number): boolean => Math.abs(seconds - wanted) <= 60
  t.ok(near(await lives({ expires_in: 1000 }), 1000))
  t.ok(near(await lives({ expires_in: '1000' }), 1000))
  t.ok(near(await lives({ expires_on: String(Math.round(Date.now() / 1000) + 2000) }), 2000))
  t.ok(near(await lives({}), 300))
  const soon = Math.round(Date.now() / 1000) + 500
  t.ok(near(await lives({ access_token: jwt({ exp: soon }), expires_in: 3600 }), 500))
})

t.test('what a token server must not answer, and what is said of it', async (t) => {
  const server = await tokenServer(t, tokens(60))
  const cases: [string, Answer, RegExp][] = [
    ['a page', { body: '<html>hunter</html>' }, /^the token server answered with something that is no JSON object$/],
    ['an error page', { status: 502, body: '<html>hunter</html>' }, /^the token server answered with status 502$/],
    [
      'a refusal',
      { status: 401, body: { error: 'invalid_client', error_description: 'not hunter2' } },
      /^the token server answered with status 401 \(invalid_client\)$/
    ],
    [
      'a number of Entra',
      { status: 400, body: { error: 'unauthorized_client', error_description: 'AADSTS700016: hunter' } },
      /\(unauthorized_client, AADSTS700016\)$/
    ],
    ['a redirect', { status: 302, headers: { location: `${server.url}/hunter` }, body: {} }, /with status 302$/],
    [
      '100 KB',
      { body: { access_token: 'h'.repeat(100_000) } },
      /^the token server answered with more than 65536 bytes$/
    ],
    ['a long token', { body: { access_token: 'h'.repeat(20_000) } }, /has more than 16384 characters$/],
    ['a token of two lines', { body: { access_token: 'hunter\r\nx: y' } }, /has characters that no header can carry/],
    ['no token', { body: { token: 'hunter' } }, /^the token server answered without an access_token$/],
    ['an empty token', { body: { access_token: '' } }, /^the token of the token server is empty$/],
    ['another type', { body: { access_token: 'a', token_type: 'mac' } }, /another type than Bearer$/],
    ['a life that is no number', { body: { access_token: 'a', expires_in: 'soon' } }, /expires_in that is no number$/]
  ]
  for (const [name, answer, said] of cases) {
    server.answering = () => answer
    const heard = await fault(oauth2(server.url))
    t.match(heard, said, name)
    t.notMatch(heard, /hunter/, `${name} shows nothing of it`)
  }
  t.equal(server.asked.length, cases.length, 'no redirect was followed')
  server.answering = () => 'hang'
  t.equal(await fault(oauth2(server.url), AbortSignal.timeout(50)), 'the token server did not answer in time')
  t.match(await fault(oauth2('http://127.0.0.1:1')), /^the token server cannot be reached/)
})

t.test('a file, without the end of its line', async (t) => {
  const file = join(t.testdir(), 'key')
  const source = { kind: 'file', file } as const
  t.match(await fault(source), /cannot be read \(ENOENT\)$/)
  writeFileSync(file, '\n')
  t.match(await fault(source), /is empty$/)
  writeFileSync(file, 'x'.repeat(70_000))
  t.match(await fault(source), /is larger than 65536 bytes$/)
  writeFileSync(file, 'sk-from-a-file\r\n')
  t.same(await ask(source), { secret: 'sk-from-a-file', expiresAt: undefined })
  writeFileSync(file, jwt({ exp: 2_000_000_000 }))
  t.equal((await ask(source)).expiresAt, 2_000_000_000_000)
})

t.test('a command, without a shell', async (t) => {
  const folder = t.testdir({ key: 'sk-of-the-folder\n' })
  const command = (...words: string[]): CredentialSource => ({ kind: 'command', command: words, every: 1000, folder })
  t.equal((await ask(command('cat', 'key'))).secret, 'sk-of-the-folder')
  t.equal((await ask(command('echo', '$HOME;`id`'))).secret, '$HOME;`id`')
  t.equal(await fault(command('sh', '-c', 'echo hunter >&2; echo hunter; exit 3')), 'the command ended with 3')
  t.equal(await fault(command('no-such-program-anywhere')), 'the command cannot be run (ENOENT)')
  t.equal(await fault(command('sleep', '60'), AbortSignal.timeout(50)), 'the command did not end in time')
  t.equal(await fault(command('true')), 'what the command printed is empty')
  t.equal(await fault(command('head', '-c', '100000', '/dev/zero')), 'the command printed more than 65536 bytes')
})

function gcp(file: string | undefined, metadata = '127.0.0.1:1'): CredentialSource {
  return { kind: 'gcp', file, scope: 'the-scope', hosts: ['127.0.0.1'], metadata }
}

t.test("a service account of Google's signs for its token", async (t) => {
  const server = await tokenServer(t, tokens(3600))
  const { privateKey, publicKey } = generateKeyPairSync('rsa', { modulusLength: 2048 })
  const file = join(t.testdir(), 'account.json')
  const account = {
    type: 'service_account',
    client_email: 'sluice@project.iam.gserviceaccount.com',
    private_key_id: 'the-key',
    private_key: privateKey.export({ type: 'pkcs8', format: 'pem' }),
    token_uri: `${server.url}/token`
  }
  writeFileSync(file, JSON.stringify(account))
  t.equal((await ask(gcp(file))).secret, 'token-number-1')
  const { grant_type: type, assertion } = server.asked[0]!.form
  t.equal(type, 'urn:ietf:params:oauth:grant-type:jwt-bearer')
  const [head, claims, signature] = assertion!.split('.')
  t.ok(createVerify('RSA-SHA256').update(`${head}.${claims}`).verify(publicKey, signature!, 'base64url'))
  const read = (part: string): any => JSON.parse(Buffer.from(part, 'base64url').toString())
  t.match(read(head!), { alg: 'RS256', kid: 'the-key' })
  const { iat, exp, ...rest } = read(claims!)
  t.same(rest, { iss: account.client_email, scope: 'the-scope', aud: account.token_uri })
  t.equal(exp - iat, 3600)

  writeFileSync(file, JSON.stringify({ ...account, token_uri: 'https://collector.example/token' }))
  t.match(await fault(gcp(file)), /"token_uri" of .* is no https address of googleapis\.com/)
  writeFileSync(file, JSON.stringify({ ...account, private_key: 'hunter' }))
  t.match(await fault(gcp(file)), /^the "private_key" of .* is no private key in PEM$/)
  writeFileSync(file, JSON.stringify({ ...account, type: 'gdch_service_account' }))
  t.match(await fault(gcp(file)), /has a "type" that is not known/)
})

t.test("a user of Google's, a workload, and an impersonation", async (t) => {
  const server = await tokenServer(t, tokens(3600))
  const folder = t.testdir({ subject: 'subject-token\n' })
  const file = join(folder, 'credentials.json')
  const user = {
    type: 'authorized_user',
    client_id: 'id',
    client_secret: 'hunter',
    refresh_token: 'refresh',
    token_uri: `${server.url}/token`
  }
  writeFileSync(file, JSON.stringify(user))
  t.equal((await ask(gcp(file))).secret, 'token-number-1')
  t.same(server.asked[0]!.form, {
    grant_type: 'refresh_token',
    client_id: 'id',
    client_secret: 'hunter',
    refresh_token: 'refresh'
  })

  const give = server.answering
  const impersonated = new Date(Date.now() + 600_000).toISOString()
  server.answering = (asked) =>
    asked.target === '/impersonate'
      ? { body: { accessToken: 'impersonated', expireTime: impersonated } }
      : asked.target === '/subject'
        ? { body: { value: 'subject-of-a-server' } }
        : give(asked)
  const workload = {
    type: 'external_account',
    audience: '//iam.googleapis.com/pool',
    subject_token_type: 'urn:ietf:params:oauth:token-type:jwt',
    token_url: `${server.url}/sts`,
    service_account_impersonation_url: `${server.url}/impersonate`,
    credential_source: { file: join(folder, 'subject') }
  }
  writeFileSync(file, JSON.stringify(workload))
  t.same(await ask(gcp(file)), { secret: 'impersonated', expiresAt: Date.parse(impersonated) })
  t.match(server.asked[1], {
    target: '/sts',
    form: {
      grant_type: 'urn:ietf:params:oauth:grant-type:token-exchange',
      audience: workload.audience,
      subject_token: 'subject-token',
      subject_token_type: workload.subject_token_type
    }
  })
  t.equal(server.asked[2]!.headers.authorization, 'Bearer token-number-2')
  t.same(JSON.parse(server.asked[2]!.body.toString()), { scope: ['the-scope'], lifetime: '3600s' })

  const byServer = {
    url: `${server.url}/subject`,
    headers: { 'x-own': 'yes' },
    format: { type: 'json', subject_token_field_name: 'value' }
  }
  writeFileSync(
    file,
    JSON.stringify({ ...workload, service_account_impersonation_url: undefined, credential_source: byServer })
  )
  t.equal((await ask(gcp(file))).secret, 'token-number-3')
  t.equal(server.asked[3]!.headers['x-own'], 'yes')
  t.match(server.asked[4]!.form, { subject_token: 'subject-of-a-server', scope: 'the-scope' })

  writeFileSync(file, JSON.stringify({ ...workload, credential_source: { executable: { command: '/bin/hunter' } } }))
  t.match(await fault(gcp(file)), /"credential_source" of .* is not known/)

  writeFileSync(
    file,
    JSON.stringify({
      type: 'impersonated_service_account',
      source_credentials: user,
      service_account_impersonation_url: `${server.url}/impersonate`
    })
  )
  t.equal((await ask(gcp(file))).secret, 'impersonated')
})

t.test('a workload on AWS shows Google a question that it has signed, and signs no other', async (t) => {
  const server = await tokenServer(t, tokens(3600))
  const nowhere = join(t.testdir(), 'none')
  environment(t, {
    AWS_ACCESS_KEY_ID: 'AKIDEXAMPLE',
    AWS_SECRET_ACCESS_KEY: 'hunter-key',
    AWS_SESSION_TOKEN: 'hunter-session',
    AWS_PROFILE: undefined,
    AWS_REGION: 'eu-west-1',
    AWS_SHARED_CREDENTIALS_FILE: nowhere,
    AWS_CONFIG_FILE: nowhere
  })
  const file = join(t.testdir(), 'aws.json')
  const audience = '//iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/p/providers/aws'
  const write = (question: string): void =>
    writeFileSync(
      file,
      JSON.stringify({
        type: 'external_account',
        audience,
        subject_token_type: 'urn:ietf:params:aws:token-type:aws4_request',
        token_url: `${server.url}/sts`,
        credential_source: { environment_id: 'aws1', regional_cred_verification_url: question }
      })
    )
  write('https://sts.{region}.amazonaws.com?Action=GetCallerIdentity&Version=2011-06-15')
  t.equal((await ask(gcp(file))).secret, 'token-number-1')
  const { subject_token: token, subject_token_type: type, audience: told } = server.asked[0]!.form
  t.equal(type, 'urn:ietf:params:aws:token-type:aws4_request')
  t.equal(told, audience)
  const { url, method, headers } = JSON.parse(decodeURIComponent(token!))
  t.equal(url, 'https://sts.eu-west-1.amazonaws.com?Action=GetCallerIdentity&Version=2011-06-15')
  t.equal(method, 'POST')
  const sent = Object.fromEntries(headers.map(({ key, value }: Record<string, string>) => [key, value]))
  t.match(sent, {
    host: 'sts.eu-west-1.amazonaws.com',
    'x-goog-cloud-target-resource': audience,
    'x-amz-security-token': 'hunter-session'
  })
  const { authorization, ...signed } = sent
  const [y, mo, d, h, mi, s] = /^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z$/.exec(signed['x-amz-date'])!.slice(1)
  const theirs = await new SignatureV4({
    service: 'sts',
    region: 'eu-west-1',
    sha256: Sha256 as never,
    applyChecksum: false,
    credentials: { accessKeyId: 'AKIDEXAMPLE', secretAccessKey: 'hunter-key', sessionToken: 'hunter-session' }
  }).sign(
    {
      method: 'POST',
      protocol: 'https:',
      hostname: signed['host'],
      path: '/',
      query: { Action: 'GetCallerIdentity', Version: '2011-06-15' },
      headers: { host: signed['host'], 'x-goog-cloud-target-resource': audience }
    },
    { signingDate: new Date(`${y}-${mo}-${d}T${h}:${mi}:${s}Z`) }
  )
  t.equal(authorization, theirs.headers['authorization'], "as AWS's library signs it")

  for (const other of [
    'https://iam.amazonaws.com?Action=GetCallerIdentity',
    'https://sts.amazonaws.com.example?Action=GetCallerIdentity',
    'https://sts.{region}.amazonaws.com?Action=AssumeRole',
    'https://sts.{region}.amazonaws.com?Action=GetCallerIdentity&Action=AssumeRole',
    'https://sts.{region}.amazonaws.com/other?Action=GetCallerIdentity',
    'http://sts.{region}.amazonaws.com?Action=GetCallerIdentity',
    'no address'
  ]) {
    write(other)
    t.match(await fault(gcp(file)), /^the question for AWS is none for GetCallerIdentity/, other)
  }
  t.equal(server.asked.length, 1)
})

t.test("the metadata server of Google's has to say that it is one", async (t) => {
  const server = await tokenServer(t, tokens(3600))
  t.match(await fault(gcp(undefined, server.host)), /^the metadata server did not say that it is Google's$/)
  const give = server.answering
  server.answering = (asked) => ({ ...(give(asked) as Answer), headers: { 'metadata-flavor': 'Google' } })
  t.equal((await ask(gcp(undefined, server.host))).secret, 'token-number-2')
  t.match(server.asked[1], {
    method: 'GET',
    target: '/computeMetadata/v1/instance/service-accounts/default/token?scopes=the-scope',
    headers: { 'metadata-flavor': 'Google' }
  })
})

function azure(by: Extract<CredentialSource, { kind: 'azure' }>['by'], clientId?: string): CredentialSource {
  return { kind: 'azure', scope: 'https://cognitiveservices.azure.com/.default', clientId, by }
}

t.test('Entra, by a secret and by the token of a workload, which is read each time', async (t) => {
  const server = await tokenServer(t, tokens(3600))
  const tokenUrl = `${server.url}/tenant/oauth2/v2.0/token`
  await ask(azure({ kind: 'secret', tokenUrl, clientSecret: 'hunter' }, 'id'))
  t.match(server.asked[0], { method: 'POST', target: '/tenant/oauth2/v2.0/token' })
  const common = {
    grant_type: 'client_credentials',
    client_id: 'id',
    scope: 'https://cognitiveservices.azure.com/.default'
  }
  t.same(server.asked[0]!.form, { ...common, client_secret: 'hunter' })

  const file = join(t.testdir({ token: 'first\n' }), 'token')
  const byWorkload = azure({ kind: 'workload', tokenUrl, file }, 'id')
  await ask(byWorkload)
  writeFileSync(file, 'second\n')
  await ask(byWorkload)
  const type = 'urn:ietf:params:oauth:client-assertion-type:jwt-bearer'
  t.same(server.asked[1]!.form, { ...common, client_assertion_type: type, client_assertion: 'first' })
  t.equal(server.asked[2]!.form['client_assertion'], 'second')
})

t.test('the managed identity of a machine and of an app', async (t) => {
  const server = await tokenServer(t, () => ({
    body: { access_token: 'managed', expires_in: '3599', expires_on: '1' }
  }))
  const endpoint = `${server.url}/metadata/identity/oauth2/token`
  const answering = server.answering
  let busy = 1
  server.answering = (asked) => (busy-- > 0 ? { status: 429, body: {} } : answering(asked))
  t.equal((await ask(azure({ kind: 'machine', endpoint }, 'id'))).secret, 'managed')
  t.equal(server.asked.length, 2, 'a server that was busy is asked again')
  const resource = 'resource=https%3A%2F%2Fcognitiveservices.azure.com'
  t.match(server.asked[1], {
    target: `/metadata/identity/oauth2/token?api-version=2018-02-01&${resource}&client_id=id`,
    headers: { metadata: 'true' }
  })
  await ask(azure({ kind: 'app', endpoint: `${server.url}/msi`, header: 'the-header' }))
  t.match(server.asked[2], {
    target: `/msi?api-version=2019-08-01&${resource}`,
    headers: { 'x-identity-header': 'the-header' }
  })
})

function environment(t: Test, values: Readonly<Record<string, string | undefined>>): void {
  const before = Object.fromEntries(Object.keys(values).map((name) => [name, process.env[name]]))
  const set = (all: typeof values): void => {
    for (const [name, value] of Object.entries(all))
      if (value === undefined) delete process.env[name]
      else process.env[name] = value
  }
  set(values)
  t.teardown(() => set(before))
}

const aws = { kind: 'aws', region: 'us-east-1', service: 'bedrock', profile: undefined, role: undefined } as const

t.test("AWS: a container's keys by the default chain, and new ones whenever they are asked for", async (t) => {
  let n = 0
  const expiration = new Date(Date.now() + 3_600_000)
  const server = await tokenServer(t, () => ({
    body: {
      AccessKeyId: `AKID${++n}`,
      SecretAccessKey: 'secret',
      Token: 'session',
      Expiration: expiration.toISOString()
    }
  }))
  const nowhere = join(t.testdir(), 'none')
  environment(t, {
    AWS_CONTAINER_CREDENTIALS_FULL_URI: `${server.url}/creds`,
    AWS_ACCESS_KEY_ID: undefined,
    AWS_PROFILE: undefined,
    AWS_SHARED_CREDENTIALS_FILE: nowhere,
    AWS_CONFIG_FILE: nowhere
  })
  const again = askOf(aws)
  const { secret, expiresAt } = await again(never)
  t.same(secret, { accessKeyId: `AKID${n}`, secretAccessKey: 'secret', sessionToken: 'session' })
  t.equal(expiresAt, Math.floor(expiration.getTime()))
  const before = n
  t.match((await again(never)).secret, { accessKeyId: `AKID${before + 1}` })
})

t.test('AWS: a chain without keys says so', async (t) => {
  const nowhere = join(t.testdir(), 'none')
  environment(t, {
    AWS_ACCESS_KEY_ID: undefined,
    AWS_PROFILE: undefined,
    AWS_SHARED_CREDENTIALS_FILE: nowhere,
    AWS_CONFIG_FILE: nowhere,
    AWS_EC2_METADATA_DISABLED: 'true'
  })
  t.match(await fault(aws), /^the chain of AWS gave no keys \(Could not load credentials from any providers\)$/)
})

t.test('AWS: keys of its file are seen when others write new ones, also by whoever takes on a role', async (t) => {
  const file = join(t.testdir(), 'credentials')
  const write = (id: string): void =>
    writeFileSync(file, `[default]\naws_access_key_id = ${id}\naws_secret_access_key = secret\n`)
  const server = await tokenServer(t, () => ({
    headers: { 'content-type': 'text/xml' },
    body: `<AssumeRoleResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleResult><Credentials>
      <AccessKeyId>ASIA</AccessKeyId><SecretAccessKey>secret</SecretAccessKey><SessionToken>session</SessionToken>
      <Expiration>2099-01-01T00:00:00Z</Expiration></Credentials></AssumeRoleResult></AssumeRoleResponse>`
  }))
  environment(t, {
    AWS_ACCESS_KEY_ID: undefined,
    AWS_PROFILE: undefined,
    AWS_SHARED_CREDENTIALS_FILE: file,
    AWS_CONFIG_FILE: join(t.testdir(), 'none'),
    AWS_EC2_METADATA_DISABLED: 'true',
    AWS_ENDPOINT_URL_STS: server.url
  })
  const [plain, role] = [askOf(aws), askOf({ ...aws, role: 'arn:aws:iam::123456789012:role/models' })]
  for (const id of ['AKIDONE', 'AKIDTWO']) {
    write(id)
    t.match((await plain(never)).secret, { accessKeyId: id })
    t.match((await role(never)).secret, { accessKeyId: 'ASIA', sessionToken: 'session' })
    t.match(server.asked.at(-1)!.headers.authorization, `Credential=${id}/`)
  }
})
