// The pages of requests and of the chain in a browser: found by filters in the address, followed from row to row, each
// with the reason why it was refused, and whatever others wrote stays text.
import t from 'tap'
import { ask } from '../kit/client.ts'
import { accessible, inAllForms, openPage } from '../kit/browser.ts'
import '../kit/built-console.ts'
import { gateway, testKey } from '../kit/gateway.ts'
import type { LocalGateway } from '../kit/gateway.ts'
import { eventually } from '../kit/probe.ts'
import { chunk, endOfBody, head, Upstream } from '../kit/upstream.ts'

const json = { 'content-type': 'application/json' }

async function recorded(local: LocalGateway, count: number): Promise<void> {
  await eventually(async () => (await local.admin('/admin/v1/requests')).data.length >= count)
}

t.test('the log is filtered, followed by keys, and says why a request was refused', async (t) => {
  const local = await gateway(t, {
    keys: [{ name: 'test', key: testKey, tenant: 'acme', limits: { rpm: 3 } }]
  })
  for (let place = 0; place < 5; place++) await local.chat()
  await local.chat({ model: 'none-such' })
  await recorded(local, 6)
  const page = await openPage(t, `${local.adminUrl}/console/requests`)
  await page
    .getByRole('cell', { name: /429 rate_limit_rpm/ })
    .first()
    .waitFor()
  await page.getByText(/6 requests,/).waitFor()
  await inAllForms(page, 'requests', (form) => accessible(t, page, form))

  await page.getByLabel('What to filter by').selectOption('code')
  await page.keyboard.press('/')
  await page.getByLabel('Value of the filter').fill('rate_limit_rpm')
  await page.keyboard.press('Enter')
  await page.getByText(/2 requests/).waitFor()
  t.match(page.url(), /\?code=rate_limit_rpm$/, 'the filter is in the address')
  await page.getByRole('link').and(page.locator('td a')).first().click()
  const panel = page.getByRole('region', { name: 'One request' })
  await panel.getByText(/429 rate_limit_rpm: refused by the plugin ratelimit/).waitFor()
  await panel.getByText('key:test').first().waitFor()
  await panel.getByRole('row', { name: /End of the answer/ }).waitFor()
  await inAllForms(page, 'request-refused', (form) => accessible(t, page, form))
  const first = page.url()
  await page.locator('h1').press('j')
  await page.waitForURL((url) => url.href !== first)
  t.match(page.url(), /code=rate_limit_rpm$/, 'the next is of the same filter')
  await page.keyboard.press('k')
  await page.waitForURL(first)
  await page.keyboard.press('Escape')
  await panel.waitFor({ state: 'detached' })
  t.match(page.url(), /\/console\/requests\?code=rate_limit_rpm$/)

  await page.getByRole('button', { name: 'Without Error rate_limit_rpm' }).click()
  await page.getByText(/6 requests,/).waitFor()
  await page.goto(`${local.adminUrl}/console/requests?model=demo&status=2xx`)
  await page.getByText(/3 requests/).waitFor()
  await page.locator('td a').first().click()
  await panel.getByRole('row', { name: /Attempt 1: demo/ }).waitFor()
  await panel.getByRole('row', { name: /Settled on disk/ }).waitFor()
  await panel.getByRole('button', { name: 'Explain again' }).click()
  await panel.getByText(/Now it would be/).waitFor()
  await inAllForms(page, 'request', (form) => accessible(t, page, form))

  await page.keyboard.press('Escape')
  await page.goto(`${local.adminUrl}/console/requests?model=none-such-either`)
  await page.getByText('No request fits these filters').waitFor()
})

t.test('a request that hangs is found while it is under way', async (t) => {
  const local = await gateway(t)
  const page = await openPage(t, `${local.adminUrl}/console/requests`)
  const hanging = ask(t, local.url, {
    path: '/v1/chat/completions',
    headers: { authorization: `Bearer ${testKey}` },
    body: { model: 'demo', messages: [{ role: 'user', content: '[[simulator {"first_byte_ms": 15000}]]' }] }
  })
  const summary = page.getByText('Requests under way')
  await summary.focus()
  await page.keyboard.press('Enter')
  const table = page.getByRole('region', { name: 'Table of requests under way' })
  await table.getByRole('cell', { name: /waits for its upstream/ }).waitFor()
  await inAllForms(page, 'requests-under-way', (form) => accessible(t, page, form))
  await hanging
  await page.getByText('No request is under way').waitFor()
  await page.getByText('1 new').waitFor()
})

t.test('new requests do not push what is read', async (t) => {
  const local = await gateway(t)
  await local.chat()
  await recorded(local, 1)
  const page = await openPage(t, `${local.adminUrl}/console/requests`)
  await page.getByText(/1 request,/).waitFor()
  const rows = page.getByRole('region', { name: 'Table of requests' }).locator('tbody tr')
  // One a second, of which the stream shows each.
  let sent = 0
  const fresh = page.getByRole('button', { name: /^[1-9]\d* new$/ })
  await eventually(async () => {
    await local.chat()
    sent++
    await page.waitForTimeout(500)
    return (await fresh.count()) > 0
  }, 60_000)
  t.equal(await rows.count(), 1, 'the list is as it was')
  t.equal(page.url(), `${local.adminUrl}/console/requests`)
  // A request is in the log a moment after its answer has ended, and in the stream after that.
  await page.getByRole('button', { name: `${sent} new`, exact: true }).waitFor()
  await fresh.click()
  await eventually(async () => (await rows.count()) === 1 + sent, 60_000)
  t.equal(await fresh.count(), 0)

  await page.goto(`${local.adminUrl}/console/requests?model=none-such`)
  await page.getByText('No request fits these filters').waitFor()
  // Of two that end after one another, the second alone is of the filter.
  await eventually(async () => {
    await local.chat()
    await local.chat({ model: 'none-such' })
    await page.waitForTimeout(500)
    return (await fresh.count()) > 0
  }, 60_000)
  const [{ length }] = [(await local.admin('/admin/v1/requests?model=none-such')).data]
  t.ok(Number((await fresh.textContent())!.split(' ')[0]) <= length, 'those of other models are not counted')
})

t.test('the log is scrolled through its pages, and no row moves that is read', async (t) => {
  const local = await gateway(t)
  for (let place = 0; place < 150; place++) await local.chat()
  const page = await openPage(t, `${local.adminUrl}/console/requests`)
  await page.getByText(/150 requests,/).waitFor()
  const box = page.getByRole('region', { name: 'Table of requests' })
  await box.hover()
  const top = (): Promise<unknown> => page.evaluate("document.querySelector('.table-box').scrollTop")
  await page.mouse.wheel(0, 700)
  await page.getByText('150 rows').waitFor()
  await eventually(async () => (await top()) === 700, 60_000)
  t.ok((await box.locator('tbody tr').count()) < 80, 'rows out of sight are not drawn')
  const read = (await box.locator('tbody tr:not([aria-hidden]) a').nth(12).getAttribute('href'))!
  const place = async (): Promise<unknown> => (await box.locator(`a[href="${read}"]`).boundingBox())?.y
  const before = await place()
  const fresh = page.getByRole('button', { name: /new$/ })
  await eventually(async () => {
    await local.chat()
    return (await fresh.count()) > 0
  }, 60_000)
  t.equal(await place(), before, 'what is read stays where it is')
  await fresh.click()
  await eventually(async () => (await top()) === 0, 60_000)
})

t.test('whatever clients and upstreams write stays text, with what cannot be seen named', async (t) => {
  const upstream = await Upstream.start(t)
  const evil = '<img src=x onerror="document.title=1">\u202eevil\u200b'
  upstream.script(
    head(400, json),
    chunk(JSON.stringify({ error: { message: evil, type: evil, code: 'bad' } })),
    endOfBody()
  )
  const local = await gateway(t, {}, { upstreams: { first: upstream } })
  await local.chat()
  await local.ask({
    path: '/v1/chat/completions',
    headers: { 'x-request-id': '"><script>alert(1)</script>' },
    body: { model: evil, messages: [] }
  })
  await recorded(local, 2)
  const page = await openPage(t, `${local.adminUrl}/console/requests`)
  await page
    .getByText(/<img src=x onerror=/)
    .first()
    .waitFor()
  const links = page.locator('td a')
  for (const place of [0, 1]) {
    await links.nth(place).click()
    await page.getByText('Raw record').click()
    await page
      .getByText(/‹U\+202E›evil‹U\+200B›/)
      .first()
      .waitFor()
    await page.keyboard.press('Escape')
  }
  t.equal(await page.locator('main img, main script').count(), 0)
  t.match(await page.title(), /^Requests/)
})

t.test(
  'the chain shows what plugins take and refuse, and actors of a tenant see neither it nor channels',
  async (t) => {
    const token = 'the token of the owner'
    const local = await gateway(t, {
      admin: { token },
      keys: [{ name: 'test', key: testKey, tenant: 'acme', limits: { rpm: 1 } }]
    })
    for (let place = 0; place < 3; place++) await local.chat()
    const root = (method: string, path: string, body?: object): Promise<{ json(): any }> =>
      ask(t, local.adminUrl, { method, path, headers: { authorization: `Bearer ${token}` }, ...(body && { body }) })
    await eventually(async () => (await root('GET', '/admin/v1/requests')).json().data.length === 3)
    const signIn = async (secret: string, place: string): Promise<Awaited<ReturnType<typeof openPage>>> => {
      const page = await openPage(t, `${local.adminUrl}/console/${place}`, { expected: [/40[13]/] })
      await page.getByLabel(/token/i).first().fill(secret)
      await page.keyboard.press('Enter')
      return page
    }
    const page = await signIn(token, 'chain')
    await page.getByRole('heading', { name: 'ratelimit' }).waitFor()
    await page.getByRole('link', { name: 'rate_limit_rpm' }).waitFor()
    await inAllForms(page, 'chain', (form) => accessible(t, page, form))
    await page.getByRole('link', { name: 'rate_limit_rpm' }).click()
    await page.getByText(/2 requests/).waitFor()

    const made = await root('POST', '/admin/v1/operators', { name: 'ta', role: 'tenant_admin', tenant: 'acme' })
    const other = await signIn(made.json().token, 'requests?status=200')
    await other.locator('td a').first().click()
    const panel = other.getByRole('region', { name: 'One request' })
    await panel.getByText(/200: answered after/).waitFor()
    t.equal(await panel.getByText(/Attempt|channel/i).count(), 0, 'no attempts and no channels')
    t.equal(await other.getByRole('link', { name: 'Chain' }).count(), 0)
  }
)
