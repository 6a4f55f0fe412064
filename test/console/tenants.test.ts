// The pages of tenants and of spend in a browser, for who runs the gateway and for an admin of one tenant.
import { readFileSync } from 'node:fs'
import t from 'tap'
import type { Test } from 'tap'
import { accessible, inAllForms, openPage } from '../kit/browser.ts'
import '../kit/built-console.ts'
import { ask } from '../kit/client.ts'
import { gateway, testKey } from '../kit/gateway.ts'
import type { LocalGateway } from '../kit/gateway.ts'
import { eventually } from '../kit/probe.ts'

const owner = 'the token of the owner'
const zetas = 'sk-zeta-00000000000000000000'

/** A gateway on which two tenants have spent. */
async function used(t: Test, admin: object = {}): Promise<LocalGateway> {
  const local = await gateway(t, {
    admin,
    tenants: { acme: { budget: { usd: 0.001, per: 'month' }, projects: { web: {} } }, zeta: {} },
    keys: [
      { name: 'test', key: testKey, tenant: 'acme' },
      { name: 'zetas-own', key: zetas, tenant: 'zeta' }
    ]
  })
  const say = (key: string) =>
    ask(t, local.url, {
      method: 'POST',
      path: '/v1/chat/completions',
      headers: { authorization: `Bearer ${key}` },
      body: { model: 'demo', max_tokens: 100, messages: [{ role: 'user', content: 'Hi' }] }
    })
  for (let i = 0; i < 3; i++) t.equal((await say(testKey)).status, 200)
  t.equal((await say(zetas)).status, 200)
  return local
}

t.test('a project and a member are added with a budget, changed, and closed', async (t) => {
  const { adminUrl, admin } = await used(t)
  const page = await openPage(t, `${adminUrl}/console/tenants`)
  await page.getByRole('link', { name: 'acme', exact: true }).click()
  const tenant = page.getByRole('region', { name: 'tenant acme' })
  await tenant.getByText('binds').waitFor()
  await inAllForms(page, 'tenants', (form) => accessible(t, page, form))
  await tenant.getByRole('button', { name: 'Add a project' }).click()
  const dialog = page.getByRole('dialog')
  await dialog.getByLabel('name').fill('shop')
  await dialog.getByRole('button', { name: 'Add', exact: true }).click()
  await page.getByRole('link', { name: 'acme / shop' }).click()
  const project = page.getByRole('region', { name: 'project acme / shop' })
  await project.getByRole('button', { name: 'Change' }).click()
  await dialog.getByRole('button', { name: 'Set budget' }).click()
  await dialog.getByLabel('usd').fill('2.5')
  await dialog.getByLabel(/^per/).fill('day')
  await accessible(t, page, 'the form of a budget')
  await dialog.getByRole('button', { name: 'Save' }).click()
  await project.getByText('$2.50 a day').first().waitFor()
  t.match((await admin('/admin/v1/projects/acme/shop')).budget, [{ usd: '2.5', per: 'day' }])
  await project.getByRole('button', { name: 'Add a member' }).click()
  await dialog.getByLabel('name').fill('eve')
  await dialog.getByRole('button', { name: 'Add', exact: true }).click()
  await page.getByRole('link', { name: 'acme / shop / eve' }).waitFor()
  await project.getByRole('button', { name: 'Close for good' }).click()
  await dialog.getByLabel(/^Type/).fill('shop')
  await dialog.getByRole('button', { name: 'Close for good' }).click()
  await eventually(async () => (await admin('/admin/v1/projects/acme/shop')).state === 'closed')
})

t.test('spend is shown by any two dimensions, and taken away as a file', async (t) => {
  const { adminUrl } = await used(t)
  const page = await openPage(t, `${adminUrl}/console/spend?by=day&and=tenant`)
  await page.getByRole('img', { name: /^Spend a day: highest/ }).waitFor()
  await page.getByRole('cell', { name: /^zeta/ }).waitFor()
  await inAllForms(page, 'spend', (form) => accessible(t, page, form))
  await page.getByRole('cell', { name: /^acme/ }).first().hover()
  await page.getByRole('button', { name: 'Only Tenant acme' }).first().click()
  await page.getByRole('cell', { name: /^zeta/ }).waitFor({ state: 'detached' })
  await page.getByLabel('By', { exact: true }).selectOption('key')
  await page.getByRole('cell', { name: /^test/ }).waitFor()
  t.match(page.url(), /by=key&and=tenant&tenant=acme/)
  const arriving = page.waitForEvent('download')
  await page.getByRole('link', { name: 'CSV' }).click()
  const file = await arriving
  t.match(file.suggestedFilename(), /^sluice-spend-.*\.csv$/)
  t.match(readFileSync(await file.path(), 'utf8'), /^key,tenant,requests,charge_usd.*\r\ntest,acme,3,/)
})

t.test('an admin of one tenant sees nothing of another, on any of these pages', async (t) => {
  const { adminUrl } = await used(t, { token: owner })
  const { token } = (
    await ask(t, adminUrl, {
      method: 'POST',
      path: '/admin/v1/operators',
      headers: { authorization: `Bearer ${owner}` },
      body: { name: 'ta', role: 'tenant_admin', tenant: 'acme' }
    })
  ).json()
  const page = await openPage(t, `${adminUrl}/console/keys`)
  const answers: Promise<string>[] = []
  page.on('response', (reply) => {
    const { pathname } = new URL(reply.url())
    if (pathname.startsWith('/admin/') && pathname !== '/admin/openapi.json') answers.push(reply.text().catch(() => ''))
  })
  await page.getByLabel('Token').fill(token)
  await page.getByLabel('Token').press('Enter')
  await page.getByRole('link', { name: 'test', exact: true }).click()
  await page.getByRole('region', { name: 'Key test' }).locator('.status', { hasText: 'may use' }).waitFor()
  t.notMatch(await page.content(), /zeta/)
  await page.getByRole('link', { name: 'Tenants' }).click()
  await page.getByRole('link', { name: 'acme', exact: true }).click()
  await page.getByText('binds').waitFor()
  t.equal(await page.getByRole('button', { name: 'Make a tenant' }).count(), 0)
  t.equal(await page.getByRole('button', { name: 'Change' }).count(), 0, 'its own tenant is not its own to change')
  t.notMatch(await page.content(), /zeta/)
  await page.getByRole('link', { name: 'Spend' }).first().click()
  await page.getByRole('cell', { name: /^demo/ }).waitFor()
  t.equal(await page.getByRole('button', { name: 'Cost' }).count(), 0, 'nor what it costs the operator')
  t.notMatch(await page.content(), /zeta/)
  t.ok(answers.length > 5)
  for (const text of await Promise.all(answers)) t.notMatch(text, /zeta/)
})
