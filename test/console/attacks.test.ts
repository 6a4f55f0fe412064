// Pages of others in the browser of somebody who has signed in: another port of the host, a name that resolves to the
// listener, a frame. Their cookie goes along with the first, and nothing comes of any.
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import t from 'tap'
import type { Test } from 'tap'
import { openPage } from '../kit/browser.ts'
import type { Page } from '../kit/browser.ts'
import '../kit/built-console.ts'
import { ask } from '../kit/client.ts'
import { gateway } from '../kit/gateway.ts'
import { eventually } from '../kit/probe.ts'

const token = 'the token of the owner of this test'

/** A site of an attacker on another port of this machine. It notes which cookies it is sent. */
async function attacker(t: Test, html: string): Promise<{ url: string; cookies: string[] }> {
  const cookies: string[] = []
  const server = createServer((request, response) => {
    cookies.push(request.headers.cookie ?? '')
    response.setHeader('content-type', 'text/html').end(html)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`, cookies }
}

/** Signs in at a gateway; whatever its pages say of what is refused is expected. */
async function signedIn(t: Test, adminUrl: string): Promise<Page> {
  const page = await openPage(t, `${adminUrl}/console/keys`, { expected: [/./] })
  await page.getByLabel('Token').fill(token)
  await page.getByLabel('Token').press('Enter')
  await page.getByRole('link', { name: 'test', exact: true }).waitFor()
  return page
}

t.test('a page on another port of the host is sent the cookie, and can do nothing with it', async (t) => {
  const { adminUrl } = await gateway(t, { admin: { token } })
  const page = await signedIn(t, adminUrl)
  const { url, cookies } = await attacker(
    t,
    `<!doctype html><form method="post" enctype="text/plain" action="${adminUrl}/admin/v1/keys">
     <input name='{"tenant":"acme","x":"' value='"}'></form>`
  )
  await page.goto(url)
  t.match(cookies[0], /__Host-sluice_admin_\d+=/, 'cookies do not know ports')
  const outcome = await page.evaluate(
    `Promise.all([
      ['GET', '/admin/v1/keys', 'cors'], ['GET', '/admin/v1/session', 'no-cors'],
      ['POST', '/admin/v1/keys', 'no-cors'], ['POST', '/admin/logout', 'no-cors'], ['POST', '/admin/v1/keys', 'cors']
    ].map(([method, path, mode]) =>
      fetch('${adminUrl}' + path, {
        method, mode, credentials: 'include',
        ...(method === 'POST' && { body: '{"tenant":"acme","name":"stolen"}' })
      }).then((reply) => reply.type + ' ' + reply.status + ' ' + reply.text().length, (error) => 'refused')
    ))`
  )
  for (const one of outcome as string[]) t.match(one, /^refused$|^opaque 0 /, 'nothing of an answer is read')
  const answered = page.waitForResponse((reply) => reply.request().method() === 'POST')
  await page.evaluate('document.forms[0].submit()')
  t.equal((await answered).status(), 403, 'a form does nothing either')
  await page.waitForURL(`${adminUrl}/admin/v1/keys`)
  const headers = { authorization: `Bearer ${token}` }
  const { data } = (await ask(t, adminUrl, { path: '/admin/v1/keys', headers })).json()
  t.same(
    data.map(({ name }: { name: string }) => name),
    ['test']
  )
  await page.goto(`${adminUrl}/console/keys`)
  await page.getByRole('link', { name: 'test', exact: true }).waitFor()
  t.pass('nobody was signed out')
})

t.test('the console is shown in no frame', async (t) => {
  const { adminUrl } = await gateway(t, { admin: { token } })
  const page = await signedIn(t, adminUrl)
  const { url } = await attacker(t, `<!doctype html><iframe src="${adminUrl}/console/keys"></iframe>`)
  const blocked = page.waitForEvent('console', (message) => /frame-ancestors|X-Frame-Options/i.test(message.text()))
  await page.goto(url)
  await blocked
  t.notOk(
    page.frames().some((frame) => frame.url().startsWith(adminUrl)),
    'the frame shows an error'
  )
})

t.test('a name that resolves to the listener shows no console, and signs nobody in', async (t) => {
  const { adminUrl } = await gateway(t, { admin: { token } })
  const { port } = new URL(adminUrl)
  const page = await openPage(t, `${adminUrl}/console/keys`, { expected: [/./] })
  const reply = await page.goto(`http://rebound.test:${port}/console/keys`)
  t.equal(reply!.status(), 403)
  t.notMatch(await page.content(), /<script/)
  const outcome = await page.evaluate(
    `fetch('/admin/v1/session', { method: 'POST', headers: { 'content-type': 'application/json' },
       body: ${JSON.stringify(JSON.stringify({ token }))} }).then((reply) => reply.status, () => 'refused')`
  )
  t.match(String(outcome), /^403$|^refused$/)
  await eventually(async () => {
    const headers = { authorization: `Bearer ${token}` }
    return (await ask(t, adminUrl, { path: '/admin/v1/sessions', headers })).json().data.length === 0
  })
})
