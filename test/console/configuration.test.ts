// The pages of the configuration in a browser: what is in use, the history with going back, and the editor with its
// completion, its check and its save.
import { readFileSync, writeFileSync } from 'node:fs'
import t from 'tap'
import type { Test } from 'tap'
import { accessible, inAllForms, openPage } from '../kit/browser.ts'
import type { Page } from '../kit/browser.ts'
import '../kit/built-console.ts'
import { gateway, testKey } from '../kit/gateway.ts'
import type { LocalGateway } from '../kit/gateway.ts'

t.setTimeout(600_000)

const text = (output: number, write = true): string => `# The file of this test.
listen: { host: 127.0.0.1, port: 0 }
admin: { host: 127.0.0.1, port: 0, write_config: ${write} }
store: { sqlite: ./store.db, durability: process }
channels:
  demo:
    protocol: simulator
    models: { demo: demo }
models:
  demo:
    price: { input: 1, output: ${output} }
tenants:
  acme:
    budget: { usd: 100, per: month }
keys:
  - { name: test, key: "\${KEY}", tenant: acme }
chain: [auth, quota, ratelimit, route, protocol-translate, usage-meter]
`

async function open(t: Test, path: string, whole = text(2)): Promise<{ local: LocalGateway; page: Page }> {
  const local = await gateway(t, whole, { env: { ...process.env, KEY: testKey } })
  return { local, page: await openPage(t, `${local.adminUrl}/console/configuration${path}`) }
}

t.test('a file is edited with completion, checked while it is written, and saved', async (t) => {
  const { local, page } = await open(t, '/files')
  const editor = page.getByLabel('Text of gateway.yaml')
  await editor.waitFor()
  t.equal(await editor.inputValue(), text(2))
  await inAllForms(page, 'configuration-files', (form) => accessible(t, page, form))

  // Behind `    price: …`, a member of the model.
  const at = text(2).indexOf('\ntenants:')
  await editor.evaluate((element, place) => {
    const field = element as unknown as { focus(): void; setSelectionRange(from: number, to: number): void }
    field.focus()
    field.setSelectionRange(place, place)
  }, at)
  await page.keyboard.press('Enter')
  await page.keyboard.type('con')
  await page.getByRole('option', { name: /^context_window/ }).waitFor()
  await accessible(t, page, 'completion')
  await page.keyboard.press('Enter')
  await page.keyboard.type('-5')
  await page.getByText('What has to be mended before it can be saved').waitFor()
  await page.getByRole('button', { name: 'gateway.yaml:12:21' }).click()
  t.equal(await page.getByRole('button', { name: 'Save…' }).isDisabled(), true)
  await inAllForms(page, 'configuration-problem', (form) => accessible(t, page, form))
  await editor.fill(text(3).replace('output: 3 }\n', 'output: 3 }\n    context_window: 8000\n'))
  await page.getByText('model demo: price.output changes from 2 to 3').waitFor()
  await page.getByRole('button', { name: 'Save…' }).click()
  const dialog = page.getByRole('dialog')
  await dialog.getByText('+     context_window: 8000').waitFor()
  await inAllForms(page, 'configuration-save', (form) => accessible(t, page, form))
  await dialog.getByRole('button', { name: 'Save', exact: true }).click()
  await dialog.waitFor({ state: 'detached' })
  t.match(readFileSync(local.file, 'utf8'), /context_window: 8000/)
  t.equal(local.gateway.config.models.get('demo')!.contextWindow, 8000)

  await page.getByRole('link', { name: 'In use' }).click()
  await page.getByText('The files on the disk are in use').waitFor()
  await page.getByText('✓ taken over').waitFor()
  await inAllForms(page, 'configuration', (form) => accessible(t, page, form))
})

t.test('a file of Windows keeps its line ends', async (t) => {
  const windows = text(2).replaceAll('\n', '\r\n')
  const { local, page } = await open(t, '/files', windows)
  const editor = page.getByLabel('Text of gateway.yaml')
  t.equal(await editor.inputValue(), text(2))
  await editor.fill(text(3))
  await page.getByRole('button', { name: 'Save…' }).click()
  const dialog = page.getByRole('dialog')
  await dialog.getByRole('button', { name: 'Save', exact: true }).click()
  await dialog.waitFor({ state: 'detached' })
  t.equal(readFileSync(local.file, 'utf8'), text(3).replaceAll('\n', '\r\n'))
})

t.test('somebody goes back to an earlier configuration', async (t) => {
  const { local, page } = await open(t, '/history')
  writeFileSync(local.file, text(5))
  await local.gateway.reload('SIGHUP')
  await page.reload()
  await page.getByRole('cell', { name: 'start' }).waitFor()
  const first = page.getByRole('row', { name: /start/ }).getByRole('link')
  await first.click()
  const panel = page.getByRole('region', { name: 'Configuration of the history' })
  await panel.locator('.diff .out', { hasText: '"output": 2' }).waitFor()
  await inAllForms(page, 'configuration-history', (form) => accessible(t, page, form))
  await panel.getByRole('button', { name: /^Roll back/ }).click()
  const dialog = page.getByRole('dialog')
  writeFileSync(local.file, `${text(5)}# edited\n`)
  await dialog.getByRole('button', { name: 'Roll back' }).click()
  await dialog
    .getByRole('alert')
    .getByText(/edited since/)
    .waitFor()
  await accessible(t, page, 'a refusal')
  await dialog.getByLabel(/edited since/).check()
  await dialog.getByRole('button', { name: 'Roll back' }).click()
  await dialog.waitFor({ state: 'detached' })
  t.equal(readFileSync(local.file, 'utf8'), text(2))
  await page
    .getByRole('row', { name: /rollback/ })
    .getByText('in use')
    .waitFor()
})

t.test('what is read only says why, and a faulty file on the disk is told of', async (t) => {
  const { local, page } = await open(t, '/files', text(2, false).replace('"${KEY}"', 'sk-in-clear-0123456789'))
  await page.getByText('These files are read only').waitFor()
  await page.getByText('1 secret is not shown').waitFor()
  t.notMatch(await page.content(), /sk-in-clear/)
  t.notMatch(await page.getByLabel('Text of gateway.yaml').inputValue(), /sk-in-clear/)
  writeFileSync(local.file, `${text(2, false)}colour: red\n`)
  await page.getByRole('link', { name: 'In use' }).click()
  await page.getByText(/would be refused/).waitFor()
  await page.getByRole('button', { name: 'Reload now' }).click()
  await page.getByText('Why the last reload was refused').waitFor()
  await inAllForms(page, 'configuration-refused', (form) => accessible(t, page, form))
  await page.getByRole('link', { name: 'Files' }).click()
  await page.getByText(/They are not shown/).waitFor()
})
