// The page of keys in a browser: one is made, used as its snippet says, looked at, changed, rotated and revoked.
import t from 'tap'
import { accessible, inAllForms, openPage } from '../kit/browser.ts'
import '../kit/built-console.ts'
import { ask } from '../kit/client.ts'
import { gateway } from '../kit/gateway.ts'
import { eventually } from '../kit/probe.ts'

t.test('a key is made, used, narrowed, rotated and revoked', async (t) => {
  const local = await gateway(t, { tenants: { acme: { budget: { usd: 10, per: 'month', alerts: [80] } } } })
  const { adminUrl, url } = local
  const page = await openPage(t, `${adminUrl}/console/keys`)
  await page.getByRole('link', { name: 'test', exact: true }).waitFor()
  await inAllForms(page, 'keys', (form) => accessible(t, page, form))

  await page.getByRole('button', { name: 'Make a key' }).click()
  const dialog = page.getByRole('dialog')
  await dialog.getByLabel('tenant').fill('acme')
  await dialog.getByLabel('name').fill('laptop')
  await accessible(t, page, 'the form')
  await dialog.getByRole('button', { name: 'Make', exact: true }).click()
  const secret = (await dialog.getByLabel('Secret', { exact: true }).textContent())!.trim()
  t.match(secret, /^sk-/)
  await dialog.getByLabel('Model').selectOption('demo')
  const recipes = ['curl', 'OpenAI, Python', 'Anthropic, TypeScript', 'Google, TypeScript', 'Claude Code', 'Codex']
  for (const recipe of recipes) {
    await dialog.getByLabel('For').selectOption(recipe)
    const text = (await dialog.getByLabel(recipe, { exact: true }).textContent())!
    t.ok(text.includes(secret) && text.includes(url) && text.includes('demo'), recipe)
  }
  await inAllForms(page, 'key-made', (form) => accessible(t, page, form))
  await dialog.getByRole('button', { name: 'I have kept it' }).click()
  t.notMatch(await page.content(), secret, 'it is shown no longer')

  const call = () =>
    ask(t, url, {
      method: 'POST',
      path: '/v1/chat/completions',
      headers: { authorization: `Bearer ${secret}` },
      body: { model: 'demo', messages: [{ role: 'user', content: 'Hi' }] }
    })
  t.equal((await call()).status, 200)
  await page.getByRole('link', { name: 'laptop' }).click()
  const panel = page.getByRole('region', { name: 'Key laptop' })
  await panel.locator('.status', { hasText: 'may use' }).waitFor()
  await panel.getByText('tenant:acme').first().waitFor()
  await inAllForms(page, 'key', (form) => accessible(t, page, form))

  await panel.getByRole('button', { name: 'Change' }).click()
  await dialog.getByLabel('models', { exact: true }).first().fill('other-*')
  await dialog.getByRole('button', { name: 'Save' }).click()
  await panel.locator('.status', { hasText: 'refused by the key' }).waitFor()
  t.equal((await call()).status, 404, 'the model is not there for it any more')

  await panel.getByRole('button', { name: 'Rotate' }).click()
  await dialog.getByRole('button', { name: 'Rotate' }).click()
  const next = (await dialog.getByLabel('Secret', { exact: true }).textContent())!.trim()
  t.not(next, secret)
  await dialog.getByRole('button', { name: 'I have kept it' }).click()
  t.equal((await call()).status, 401, 'the secret before is over')

  await panel.getByRole('button', { name: 'Revoke' }).click()
  await dialog.getByLabel(/^Type/).fill('laptop')
  await dialog.getByRole('button', { name: 'Revoke' }).click()
  await panel.locator('.status', { hasText: 'revoked' }).waitFor()
  await eventually(async () => (await local.admin('/admin/v1/keys/laptop')).state === 'revoked')
})
