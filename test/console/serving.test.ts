// How the admin listener serves the console: known names alone, under a policy, compressed, not sent twice; what the
// package holds of it, and how large that is.
// Runs alone: it serves the sources of the console, and others what was built of them.
import { createHash } from 'node:crypto'
import { globSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { brotliDecompressSync, gunzipSync } from 'node:zlib'
import t from 'tap'
import { bundleConsole } from '../../.tools/console.ts'
import { BuiltShelf } from '../../core/admin/console/built-shelf.ts'
import { folder } from '../../core/admin/console/sources.ts'
import { openPage } from '../kit/browser.ts'
import { ask } from '../kit/client.ts'
import { gateway, spawnGateway } from '../kit/gateway.ts'

t.test('every address of a page gives the page, and nobody has to be known', async (t) => {
  const { adminUrl } = await gateway(t, { admin: { token: 'the token of the owner of this test' } })
  for (const path of ['/', '/console']) {
    const reply = await ask(t, adminUrl, { path })
    t.match(reply, { status: 308, headers: { location: '/console/' } }, path)
  }
  for (const path of ['/console/', '/console/operators', '/console/operators/carol?x=1']) {
    const reply = await ask(t, adminUrl, { path })
    t.equal(reply.status, 200, path)
    t.equal(reply.headers['content-type'], 'text/html; charset=utf-8')
    const policy = reply.headers['content-security-policy']!
    t.same(allowed(policy, 'script-src'), ["'self'", ...inline(reply.text, 'script').map(hashOf)])
    t.same(allowed(policy, 'style-src'), ["'self'", ...inline(reply.text, 'style').map(hashOf)])
    t.equal(inline(reply.text, 'style').length, 1, 'all styles are in the page')
    t.notMatch(reply.text, /rel="stylesheet"|<script src=/, 'nothing has to come before it is painted')
    for (const rule of ["default-src 'none'", "frame-ancestors 'none'", "require-trusted-types-for 'script'"])
      t.ok(policy.includes(rule), rule)
    t.equal(reply.headers['cache-control'], 'no-cache')
  }
})

/** The texts of the elements of the page that have no address. */
function inline(page: string, name: 'script' | 'style'): string[] {
  return [...page.matchAll(new RegExp(`<${name}(?: type="importmap"| data-[^>]*)?>(.*?)</${name}>`, 'gs'))].map(
    ([, text]) => text!
  )
}

function hashOf(text: string): string {
  return `'sha256-${createHash('sha256').update(text).digest('base64')}'`
}

/** What a policy allows of one kind. */
function allowed(policy: string, kind: string): string[] {
  return new RegExp(`${kind} ([^;]*)`).exec(policy)![1]!.split(' ')
}

t.test('browsers keep modules under addresses that change with them', async (t) => {
  const { adminUrl } = await gateway(t)
  const { text } = await ask(t, adminUrl, { path: '/console/operators' })
  const [addresses] = inline(text, 'script').slice(1)
  const { imports } = JSON.parse(addresses!) as { imports: Record<string, string> }
  const main = imports['/console/app/main.ts']!
  t.ok(text.includes(`<script type="module" src="${main}">`))
  const kept = await ask(t, adminUrl, { path: main })
  t.equal(kept.headers['cache-control'], 'public, max-age=31536000, immutable')
  for (const path of ['/console/app/main.ts', '/console/app/main.ts?v=00000000']) {
    const asked = await ask(t, adminUrl, { path })
    t.match(asked, { status: 200, text: kept.text, headers: { 'cache-control': 'no-cache' } }, path)
  }
})

t.test('modules come without their types, compressed, and once', async (t) => {
  const { adminUrl } = await gateway(t)
  const plain = await ask(t, adminUrl, { path: '/console/app/main.ts' })
  t.equal(plain.headers['content-type'], 'text/javascript; charset=utf-8')
  t.equal(plain.headers['content-encoding'], undefined)
  t.match(plain.headers, { 'x-content-type-options': 'nosniff', vary: 'accept-encoding', 'x-frame-options': 'DENY' })
  const types = await ask(t, adminUrl, { path: '/console/app/api.ts' })
  t.notMatch(types.text, /interface |: string/, 'the types are gone')
  for (const [encoding, unpack] of [
    ['br', brotliDecompressSync],
    ['gzip', gunzipSync]
  ] as const) {
    const reply = await ask(t, adminUrl, {
      path: '/console/app/main.ts',
      headers: { 'accept-encoding': `${encoding}, deflate` }
    })
    t.equal(reply.headers['content-encoding'], encoding)
    t.same(unpack(reply.body), plain.body, encoding)
  }
  const headers = { 'if-none-match': `"other", W/${plain.headers['etag']}` }
  const again = await ask(t, adminUrl, { path: '/console/app/main.ts', headers })
  t.match(again, { status: 304, text: '', headers: { etag: plain.headers['etag']! } })
  const head = await ask(t, adminUrl, { method: 'HEAD', path: '/console/app/main.ts' })
  t.match(head, { status: 200, text: '', headers: { 'content-length': String(plain.body.length) } })
})

t.test('nothing but known names is there', async (t) => {
  const { adminUrl } = await gateway(t)
  const names = [
    '../console.ts',
    'app/../../console.ts',
    'app/%2e%2e/%2e%2e/console.ts',
    'app/..%2f..%2fconsole.ts',
    'app/..\\..\\console.ts',
    'app//main.ts',
    '/app/main.ts',
    'app/main.ts%00',
    'app/main.ts/',
    'app/tsconfig.json',
    'app/style/tokens.css',
    'vendor/..%2f..%2f..%2fpackage.json',
    'vendor/preact.js.map',
    '../../../../gateway.yaml',
    'console.ts',
    'constructor',
    '__proto__',
    'app/'
  ]
  for (const name of names) {
    const reply = await ask(t, adminUrl, { path: `/console/${name}` })
    t.match(reply, { status: 404, headers: { 'content-type': 'application/json' } }, name)
    t.match(reply.headers['content-security-policy'], /default-src 'none'/, 'and its answer may do nothing')
  }
  const post = await ask(t, adminUrl, { method: 'POST', path: '/console/', body: {} })
  t.match(post, { status: 405, headers: { allow: 'GET, HEAD' } })
  const foreign = await ask(t, adminUrl, { path: '/console/', headers: { host: 'evil.test' } })
  t.match(foreign.json(), { error: { code: 'host_not_allowed' } }, 'a name that resolves to this machine')
})

t.test('a file can turn it off', async (t) => {
  const { adminUrl } = await gateway(t, { admin: { console: false } })
  for (const path of ['/', '/console/', '/console/app/main.ts']) {
    t.equal((await ask(t, adminUrl, { path })).status, 404, path)
  }
})

t.test('the operator reads no warning about how it is made', async (t) => {
  const gateway = await spawnGateway(t)
  t.equal((await ask(t, gateway.adminUrl, { path: '/console/app/main.ts' })).status, 200)
  t.notMatch(gateway.output(), /Warning/)
})

t.test('the package holds it in files that browsers keep, of less than 150 kB together', async (t) => {
  const built = t.testdir()
  const { script, files } = await bundleConsole(built)
  const sizes = readdirSync(built).flatMap((file) => (file.endsWith('.br') ? [statSync(join(built, file)).size] : []))
  const sum = sizes.reduce((one, other) => one + other, 0)
  t.comment(`${sum} bytes compressed in ${sizes.length} files`)
  t.ok(sum > 10_000 && sum < 150_000, `${sum} bytes`)
  const shelf = new BuiltShelf(built)
  const { page, headers } = await shelf.shell('operators')
  t.ok(sum + page.br.length < 150_000, `and ${page.br.length} bytes of the page itself`)
  const html = Buffer.from(page.body).toString()
  t.ok(html.includes(`/console/${script}"`), 'the page names its script')
  t.ok((await shelf.find(script))!.lasting, 'whose name has its hash')
  const policy = headers['content-security-policy']!
  t.same(allowed(policy, 'script-src'), ["'self'", ...inline(html, 'script').map(hashOf)], 'without an import map')
  t.equal(inline(html, 'script').length, 1)
  const text = (await Promise.all(Object.keys(files).map((name) => shelf.find(name))))
    .map((asset) => Buffer.from(asset!.body).toString())
    .join('\n')
  // What is minified has no space there; code that the playground shows has one.
  t.notMatch(text, /from["'](?:preact|htm|uplot|@)/, 'nothing is imported by a bare name')
  t.equal(await shelf.find('../manifest.json'), undefined)
})

t.test('a page of this listener runs no script but its own', async (t) => {
  const { adminUrl } = await gateway(t)
  const expected = [/Content Security Policy|TrustedHTML|TrustedScript|Trusted Type/i]
  const page = await openPage(t, `${adminUrl}/console/operators`, { expected })
  await page.getByRole('heading', { name: 'Operators' }).waitFor()
  const refused = await page.evaluate(async () => {
    const tried: Record<string, boolean> = {}
    const attempt = async (name: string, act: () => unknown): Promise<void> => {
      try {
        await act()
        tried[name] = true
      } catch {
        tried[name] = false
      }
    }
    const { document: page, fetch: request, Worker: Thread } = globalThis as any
    await attempt('markup', () => (page.body.innerHTML = '<b>x</b>'))
    await attempt('address of a script', () => (page.createElement('script').src = '/console/app/main.ts'))
    await attempt('another origin', () => request('http://127.0.0.1:1/'))
    await attempt('a worker', () => new Thread('/console/app/main.ts'))
    return tried
  })
  t.same(refused, { markup: false, 'address of a script': false, 'another origin': false, 'a worker': false })
})

t.test('styles of pages name no class that another file names', async (t) => {
  const found = new Map<string, string>()
  const files = globSync('**/*.css', { cwd: folder }).sort()
  for (const file of files) {
    const text = readFileSync(join(folder, file), 'utf8').replace(/\/\*.*?\*\//gs, '')
    // What a selector begins with belongs to its file.
    const names = [...text.matchAll(/(?:^|[},{])\s*\.([\w-]+)/g)].map(([, name]) => name!)
    for (const name of new Set(names)) {
      const other = found.get(name)
      if (other !== undefined && !(file.startsWith('style/') && other.startsWith('style/')))
        t.fail(`.${name} is in ${other} and in ${file}: each would change what the other draws`)
      found.set(name, file)
    }
  }
  t.ok(found.size > 50)
})
