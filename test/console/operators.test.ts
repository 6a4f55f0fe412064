// The page of operators in a browser: one is made, changed, given another token, and revoked.
import t from 'tap'
import { ask } from '../kit/client.ts'
import { accessible, inAllForms, openPage } from '../kit/browser.ts'
import '../kit/built-console.ts'
import { gateway } from '../kit/gateway.ts'

t.test('an operator is made, changed and revoked', async (t) => {
  const { adminUrl } = await gateway(t, { admin: { host: '127.0.0.1', port: 0 } })
  const page = await openPage(t, `${adminUrl}/console/operators`)
  await page.getByText('There are no operators yet').waitFor()
  await inAllForms(page, 'operators-none', (form) => accessible(t, page, form))

  await page.getByRole('button', { name: 'Make an operator' }).click()
  const dialog = page.getByRole('dialog')
  await dialog.getByLabel('name').fill('carol')
  await accessible(t, page, 'the form')
  await dialog.getByRole('button', { name: 'Make', exact: true }).click()
  const token = await dialog.getByLabel('Token', { exact: true }).textContent()
  t.match(token, /^slu_adm_/, 'her token is shown')
  const headers = { authorization: `Bearer ${token!.trim()}` }
  const answer = await ask(t, adminUrl, { path: '/admin/v1/session', headers })
  t.match(answer.json(), { id: 'carol', role: 'viewer' }, 'and it works')
  await dialog.getByRole('button', { name: 'I have kept it' }).click()
  t.notMatch(await page.content(), token!.trim(), 'it is shown no longer')

  await page.getByRole('button', { name: 'Change: carol' }).click()
  await dialog.getByLabel('role').selectOption('tenant_admin')
  await dialog.getByRole('button', { name: 'Save' }).click()
  await dialog.getByRole('alert').first().waitFor()
  await dialog.getByLabel('tenant', { exact: true }).fill('acme')
  await dialog.getByRole('button', { name: 'Save' }).click()
  await page.getByRole('cell', { name: 'tenant_admin' }).waitFor()
  await inAllForms(page, 'operators', (form) => accessible(t, page, form))

  await page.getByRole('button', { name: 'Revoke: carol' }).click()
  await dialog.getByLabel(/^Type/).fill('carol')
  await dialog.getByRole('button', { name: 'Revoke' }).click()
  await page.getByText('revoked').waitFor()
  t.equal((await ask(t, adminUrl, { path: '/admin/v1/session', headers })).status, 401, 'her token ended')
})
