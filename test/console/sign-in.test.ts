// Signing in to the console by a token, in a browser, and what is kept when a session ends.
import t from 'tap'
import { accessible, inAllForms, openPage } from '../kit/browser.ts'
import '../kit/built-console.ts'
import { ask } from '../kit/client.ts'
import { gateway } from '../kit/gateway.ts'

const token = 'the token of the owner of this test'

t.test('somebody signs in by a token, and out', async (t) => {
  const { adminUrl } = await gateway(t, { admin: { token } })
  const page = await openPage(t, `${adminUrl}/console/operators`)
  const field = page.getByLabel('Token')
  await field.waitFor()
  await inAllForms(page, 'sign-in', (form) => accessible(t, page, form))
  await field.fill('a wrong one')
  await field.press('Enter')
  await page.getByRole('alert').waitFor()
  t.equal(await field.inputValue(), 'a wrong one', 'what was typed is kept')
  await field.fill(token)
  await page.getByRole('button', { name: 'Sign in' }).click()
  await page.getByRole('heading', { name: 'Operators' }).waitFor()
  t.same(await page.evaluate('Object.values(localStorage).concat(document.cookie).join()'), '', 'scripts see no secret')
  await page.locator('.bar summary').click()
  await page.getByRole('button', { name: 'Sign out' }).click()
  await field.waitFor()
})

t.test('a session that ends is asked for again, over what was typed', async (t) => {
  const { adminUrl } = await gateway(t, { admin: { token } })
  const page = await openPage(t, `${adminUrl}/console/operators`)
  await page.getByLabel('Token').fill(token)
  await page.getByLabel('Token').press('Enter')
  await page.getByLabel('Filter operators').fill('typed before')
  const headers = { authorization: `Bearer ${token}` }
  const sessions = (await ask(t, adminUrl, { path: '/admin/v1/sessions', headers })).json() as {
    data: { session: string }[]
  }
  for (const { session } of sessions.data)
    await ask(t, adminUrl, { method: 'DELETE', path: `/admin/v1/sessions/${session}`, headers })
  await page.getByRole('button', { name: 'Make an operator' }).click()
  const dialog = page.getByRole('dialog')
  await dialog.getByText('Your session is over').waitFor()
  await dialog.getByLabel('Token').fill(token)
  await dialog.getByLabel('Token').press('Enter')
  await dialog.getByText('Your session is over').waitFor({ state: 'detached' })
  t.equal(await page.getByLabel('Filter operators').inputValue(), 'typed before')
})
