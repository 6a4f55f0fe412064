// The channels in a browser: how they are doing, a test, and switching them with a question before.
import t from 'tap'
import { accessible, inAllForms, openPage } from '../kit/browser.ts'
import '../kit/built-console.ts'
import { gateway, testModel } from '../kit/gateway.ts'
import { head, Upstream } from '../kit/upstream.ts'

t.test('a channel is drained, enabled and tested', async (t) => {
  const local = await gateway(t)
  for (let i = 0; i < 3; i++) await local.chat()
  const page = await openPage(t, `${local.adminUrl}/console/channels`)
  await page.getByRole('cell', { name: 'healthy' }).waitFor()
  await inAllForms(page, 'channels', (form) => accessible(t, page, form))

  await page.getByRole('button', { name: 'Drain: demo' }).click()
  const dialog = page.getByRole('dialog')
  await dialog.getByText('Nothing new is sent there').waitFor()
  await accessible(t, page, 'the question')
  await dialog.getByRole('button', { name: 'Cancel' }).click()
  t.equal((await local.admin('/admin/v1/channels/demo')).state, 'healthy', 'nothing was done')
  await page.getByRole('button', { name: 'Drain: demo' }).click()
  await dialog.getByRole('button', { name: 'Drain', exact: true }).click()
  await page.getByRole('cell', { name: 'draining' }).waitFor()
  t.equal((await local.admin('/admin/v1/channels/demo')).state, 'draining')
  await page.getByRole('button', { name: 'Enable: demo' }).click()
  await dialog.getByRole('button', { name: 'Enable', exact: true }).click()
  await page.getByRole('cell', { name: 'healthy' }).waitFor()

  await page.getByRole('button', { name: 'Test: demo' }).click()
  await dialog.getByRole('button', { name: 'Test', exact: true }).click()
  await dialog.getByText('works, 200').first().waitFor()
  await inAllForms(page, 'channels-test', (form) => accessible(t, page, form))
  await dialog.getByRole('button', { name: 'Close', exact: true }).last().click()

  await page.getByRole('link', { name: 'demo', exact: true }).first().click()
  const panel = page.getByRole('region', { name: 'demo' })
  await panel.getByText('Requests are sent there.').waitFor()
  await panel.getByRole('img', { name: 'Requests of the last hour: 3, 0 with an error' }).waitFor()
  await inAllForms(page, 'channel', (form) => accessible(t, page, form))
})

t.test('a channel that fails says why', async (t) => {
  const upstream = await Upstream.start(t)
  upstream.always(head(500, { 'content-length': '0' }))
  const local = await gateway(t, {}, { upstreams: { one: upstream } })
  for (let i = 0; i < 5; i++) await local.chat()
  const page = await openPage(t, `${local.adminUrl}/console/channels/one?model=${testModel}`)
  await page.getByRole('cell', { name: 'ejected' }).waitFor()
  await page
    .getByText(/failures in a row/)
    .first()
    .waitFor()
})
