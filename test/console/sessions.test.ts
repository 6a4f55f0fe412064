// The page of sessions in a browser: one's own and those of others are seen, and ended, after which their browsers are
// asked to sign in; the menu that leads there.
import t from 'tap'
import { accessible, inAllForms, openPage } from '../kit/browser.ts'
import type { Page } from '../kit/browser.ts'
import '../kit/built-console.ts'
import { ask } from '../kit/client.ts'
import { gateway } from '../kit/gateway.ts'

const token = 'the token of the owner of this test'

t.test('sessions are seen and ended, one by one and all others of mine', async (t) => {
  const { adminUrl } = await gateway(t, { admin: { token } })
  const headers = { authorization: `Bearer ${token}` }
  const made = await ask(t, adminUrl, {
    method: 'POST',
    path: '/admin/v1/operators',
    headers,
    body: { name: 'carol', role: 'viewer', tenant: 'acme' }
  })
  const signIn = async (secret: string): Promise<Page> => {
    const page = await openPage(t, `${adminUrl}/console/sessions`)
    await page.getByLabel('Token').fill(secret)
    await page.getByLabel('Token').press('Enter')
    await page.getByRole('heading', { name: 'Sessions', level: 1 }).waitFor()
    return page
  }
  const carol = await signIn((made.json() as { token: string }).token)
  t.equal(await carol.getByRole('heading', { name: 'Of others' }).count(), 0, 'who sees one tenant sees no others')
  const [first, second, third] = [await signIn(token), await signIn(token), await signIn(token)]
  const others = first.getByRole('region', { name: 'Table of sessions of others' })
  await first.reload()
  await others.getByRole('cell', { name: 'carol', exact: true }).waitFor()
  const own = first.getByRole('region', { name: 'Table of own sessions' })
  t.equal(await own.locator('tbody tr').count(), 3)
  t.equal(await own.getByText('this one').count(), 1)
  await first.locator('.bar summary').click()
  await first.getByRole('link', { name: 'Sessions' }).waitFor()
  await inAllForms(first, 'menu', (form) => accessible(t, first, form))
  await first.keyboard.press('Escape')
  await inAllForms(first, 'sessions', (form) => accessible(t, first, form))

  const dialog = first.getByRole('dialog')
  await others.getByRole('button', { name: /^End the session of carol by Chrom/ }).click()
  await dialog.getByRole('button', { name: 'End', exact: true }).click()
  await others.waitFor({ state: 'detached' })
  await carol.reload()
  await carol.getByLabel('Token').waitFor()

  await first.getByRole('button', { name: 'End all others of mine' }).click()
  await dialog.getByText('End 2 sessions').waitFor()
  await dialog.getByRole('button', { name: 'End', exact: true }).click()
  await own.locator('tbody tr').nth(1).waitFor({ state: 'detached' })
  t.equal(await own.locator('tbody tr').count(), 1, 'this one is left')
  for (const other of [second, third]) {
    await other.reload()
    await other.getByLabel('Token').waitFor()
  }
  await first.reload()
  await first.getByRole('heading', { name: 'Sessions', level: 1 }).waitFor()
})
