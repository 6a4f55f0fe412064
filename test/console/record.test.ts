// The pages of what is kept, in a browser: the audit log with its filters, its differences and its export, and the
// ledger verified with progress.
import { readFileSync } from 'node:fs'
import t from 'tap'
import { openDatabase } from '../../core/store/embedded/files/sqlite.ts'
import { accessible, inAllForms, openPage } from '../kit/browser.ts'
import '../kit/built-console.ts'
import { ask } from '../kit/client.ts'
import { gateway } from '../kit/gateway.ts'

t.setTimeout(600_000)

t.test('the audit log is filtered by the address, shows what changed, and is exported', async (t) => {
  const local = await gateway(t)
  const admin = (method: string, path: string, body?: unknown) =>
    ask(t, local.adminUrl, { method, path: `/admin/v1${path}`, ...(body !== undefined && { body }) })
  await admin('POST', '/keys', { tenant: 'acme', name: 'laptop', tags: { formula: '=1+1' } })
  await admin('PATCH', '/keys/laptop', { budget: { usd: 5, per: 'day' }, tags: { formula: '<b>bold</b>' } })
  await admin('POST', '/tenants', { name: 'zeta' })
  const page = await openPage(t, `${local.adminUrl}/console/audit`)
  await page.getByRole('cell', { name: 'key.change' }).first().waitFor()
  await inAllForms(page, 'audit', (form) => accessible(t, page, form))
  await page.getByRole('textbox', { name: 'Thing', exact: true }).fill('laptop')
  await page.getByRole('textbox', { name: 'Thing', exact: true }).press('Enter')
  await page.getByText('2 rows').waitFor()
  t.match(page.url(), /object=laptop/)
  await page
    .getByRole('row', { name: /key.change/ })
    .getByRole('link')
    .click()
  const panel = page.getByRole('region', { name: 'Entry' })
  await panel.locator('.diff .in', { hasText: '<b>bold</b>' }).waitFor()
  await inAllForms(page, 'audit-entry', (form) => accessible(t, page, form))
  const [download] = await Promise.all([
    page.waitForEvent('download'),
    page.getByRole('link', { name: 'CSV', exact: true }).click()
  ])
  const csv = readFileSync(await download.path(), 'utf8')
    .trim()
    .split('\r\n')
  t.equal(csv.length, 3, 'what the filters let through, and a line of names')
  t.match(csv[0], /^seq,time,action/)
  const [lines] = await Promise.all([
    page.waitForEvent('download'),
    page.getByRole('link', { name: 'JSON lines', exact: true }).click()
  ])
  const entries = readFileSync(await lines.path(), 'utf8')
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line))
  t.match(entries, [{ action: 'key.change', object: 'laptop' }, { action: 'key.create' }])
})

t.test('the ledger is verified from the page, and what is off is named', async (t) => {
  const local = await gateway(t, { tenants: { acme: { budget: { usd: 5, per: 'month' } } } })
  await local.chat()
  const page = await openPage(t, `${local.adminUrl}/console/ledger`)
  await page.getByText('The ledger was not verified from here yet').waitFor()
  await page.getByRole('cell', { name: 'tenant:acme' }).first().waitFor()
  await page.getByRole('button', { name: 'Verify now' }).click()
  await page.getByText('in order').waitFor()
  await page.getByText(/What was checked/).click()
  await page.getByRole('cell', { name: 'I10', exact: true }).waitFor()
  await inAllForms(page, 'ledger', (form) => accessible(t, page, form))
  const database = openDatabase(local.gateway.config.settings.store.sqlite!, 'process')
  database.exec("UPDATE balance SET posted = posted + 2000000000 WHERE scope = 'key:test' AND window = 'total'")
  database.close()
  await page.getByRole('button', { name: 'Verify now' }).click()
  await page
    .locator('.tile')
    .getByText(/not in order/)
    .waitFor()
  await page.getByText('$2.00').first().waitFor()
  await page
    .getByText(/balance key:test total/)
    .first()
    .waitFor()
  await inAllForms(page, 'ledger-broken', (form) => accessible(t, page, form))
})
