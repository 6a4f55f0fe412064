// The playground in a browser: answers in all protocols as they come, side by side, with tools, pictures and sound.
import t from 'tap'
import type { Test } from 'tap'
import { accessible, inAllForms, openPage } from '../kit/browser.ts'
import type { Page, PageSetup } from '../kit/browser.ts'
import '../kit/built-console.ts'
import { ask as request } from '../kit/client.ts'
import { gateway } from '../kit/gateway.ts'
import type { LocalGateway } from '../kit/gateway.ts'
import { eventually } from '../kit/probe.ts'

const audio = { audio_input: 10, audio_output: 20 }
const settings = {
  channels: {
    demo: {
      protocol: 'simulator',
      models: { demo: 'demo', other: 'other', voice: 'tts-1', whisper: 'whisper-1', painter: 'gpt-image-1' }
    }
  },
  models: {
    demo: { price: { input: 1, output: 2, ...audio } },
    other: { price: { input: 3, output: 4 } },
    voice: { price: { input: 1, output: 0, audio_output: 12 } },
    whisper: { price: { second: '0.0001' } },
    painter: { price: { input: 1, output: 0, image_output: 2 } }
  },
  keys: [
    { name: 'ours', key: 'sk-ours', tenant: 'acme' },
    { name: 'poor', key: 'sk-poor', tenant: 'acme', budget: { usd: '0.000001', per: 'day' } }
  ]
}

const directive = (members: object): string => `[[simulator ${JSON.stringify(members)}]]`

async function open(
  t: Test,
  query = 'key=ours&model=demo',
  setup: PageSetup = {}
): Promise<{ page: Page; local: LocalGateway }> {
  const local = await gateway(t, settings)
  const page = await openPage(t, `${local.adminUrl}/console/playground?${query}`, setup)
  await page.getByRole('heading', { name: 'Playground' }).waitFor()
  return { page, local }
}

/** A second of silence as a file. */
function silence(): Buffer {
  const file = Buffer.alloc(44 + 48_000)
  file.write('RIFF')
  file.writeUInt32LE(file.length - 8, 4)
  file.write('WAVEfmt ', 8)
  file.writeUInt32LE(16, 16)
  file.writeUInt16LE(1, 20)
  file.writeUInt16LE(1, 22)
  file.writeUInt32LE(24_000, 24)
  file.writeUInt32LE(48_000, 28)
  file.writeUInt16LE(2, 32)
  file.writeUInt16LE(16, 34)
  file.write('data', 36)
  file.writeUInt32LE(48_000, 40)
  return file
}

const ask = async (page: Page, text: string): Promise<void> => {
  await page
    .getByLabel(/^Text of user message/)
    .last()
    .fill(text)
  await page.getByRole('button', { name: 'Send', exact: true }).click()
}
const answerOf = (page: Page, model = 'demo') => page.getByRole('region', { name: `Answer of ${model}` })

t.test('each protocol is streamed, with what it took and what it cost', async (t) => {
  const { page, local } = await open(t)
  await page.getByText('No answer yet').waitFor()
  await inAllForms(page, 'playground-none', (form) => accessible(t, page, form))
  await page.setViewportSize({ width: 1280, height: 900 })
  for (const [name, protocol] of [
    ['OpenAI Chat Completions', 'openai-chat'],
    ['OpenAI Responses', 'openai-responses'],
    ['Anthropic Messages', 'anthropic'],
    ['Gemini generateContent', 'gemini']
  ] as const) {
    await page.getByLabel('Protocol').selectOption({ label: name })
    const text = `First words of **${protocol}**, and then many more words that take their time to come.`
    await ask(page, directive({ text, gap_ms: 60 }))
    const answer = answerOf(page)
    await answer.getByText('First words').waitFor()
    t.equal(await answer.getAttribute('aria-busy'), 'true', `${protocol}: words are shown while others come`)
    await answer.locator('.status', { hasText: 'done' }).waitFor()
    t.equal(await answer.locator('.markdown b').textContent(), protocol, 'Markdown is drawn')
    await answer.getByText(/^\$0\.0/).waitFor()
    const link = answer.getByRole('link')
    const id = (await link.getAttribute('href'))!.split('/').at(-1)!
    const { data } = await local.admin(`/admin/v1/requests?request_id=${id}`)
    t.match(data, [{ key: 'ours', client_protocol: protocol, streamed: true, playground: { actor_kind: 'local' } }])
    const figures = await answer.locator('.figures').innerText()
    t.match(figures, new RegExp(`Tokens out\\n+${data[0].usage.output}\\n`), protocol)
    t.match(figures, /Tokens a second\n+[\d.]+\n/)
  }
  await page.getByLabel('Streamed').click()
  await ask(page, directive({ text: 'All at once' }))
  await answerOf(page).getByText('All at once').waitFor()
  t.match(page.url(), /stream=no/)
  t.notMatch(page.url(), /simulator|once/, 'no prompt is in the address')
})

t.test('two models side by side, stopped, and gone on with', async (t) => {
  const { page, local } = await open(t, 'key=ours&model=demo&other=other')
  await ask(page, directive({ model: 'other', text: 'Beside it' }))
  await answerOf(page, 'other').getByText('Beside it').waitFor()
  await answerOf(page).locator('.status', { hasText: 'done' }).waitFor()
  await answerOf(page, 'other')
    .getByText(/^\$0\.0/)
    .waitFor()
  await answerOf(page)
    .getByText(/^\$0\.0/)
    .waitFor()
  await inAllForms(page, 'playground', (form) => accessible(t, page, form))
  await page.setViewportSize({ width: 1280, height: 900 })
  await answerOf(page, 'other').getByRole('button', { name: 'Go on with this answer' }).click()
  t.equal(await page.getByLabel('Text of assistant message 2').inputValue(), 'Beside it')
  await ask(page, `${directive({ text: 'slow '.repeat(400), gap_ms: 50 })}`)
  await answerOf(page).getByText('slow').waitFor()
  await page.getByRole('button', { name: 'Stop both' }).click()
  await answerOf(page).locator('.status', { hasText: 'stopped' }).waitFor()
  await answerOf(page, 'other').locator('.status', { hasText: 'stopped' }).waitFor()
  await eventually(async () => {
    const { data } = await local.admin('/admin/v1/requests?outcome=aborted')
    return data.length === 2
  })
  await page.reload()
  t.equal(await page.getByLabel('Text of assistant message 2').inputValue(), 'Beside it', 'the tab keeps what was said')
})

t.test('tools are called, and answered by hand, in each protocol', async (t) => {
  const { page } = await open(t)
  const tools = [
    {
      name: 'weather',
      description: 'The weather',
      parameters: { type: 'object', properties: { place: { type: 'string' } } }
    }
  ]
  await page.getByText('Tools', { exact: true }).click()
  await page.getByLabel('Tools that the model may call, as JSON').fill(JSON.stringify(tools))
  for (const name of ['OpenAI Chat Completions', 'OpenAI Responses', 'Anthropic Messages', 'Gemini generateContent']) {
    await page.getByRole('button', { name: 'Begin anew' }).click()
    await page.getByLabel('Protocol').selectOption({ label: name })
    await ask(page, directive({ call: 'weather', arguments: { place: 'Rome' } }))
    const answer = answerOf(page)
    await answer.getByText('"Rome"').waitFor()
    await answer.getByLabel('What weather answers').fill('{"sky": "blue"}')
    await answer.getByRole('button', { name: 'Send what the tools answer' }).click()
    await answerOf(page).locator('.status', { hasText: 'done' }).waitFor()
    t.match(await page.locator('.composer').innerText(), /Result of weather: \{"sky": "blue"\}/, name)
    t.equal(await answerOf(page).getByRole('alert').count(), 0, name)
  }
})

t.test('a picture is sent along, the body can be typed, and the request is there as code', async (t) => {
  const { page } = await open(t)
  const dot = Buffer.from(
    'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg==',
    'base64'
  )
  await page
    .getByLabel('Attach a picture or sound to user message 1')
    .setInputFiles({ name: 'dot.png', mimeType: 'image/png', buffer: dot })
  await page.getByRole('img', { name: 'dot.png' }).waitFor()
  await ask(page, 'What is this?')
  const answer = answerOf(page)
  await answer.locator('.status', { hasText: 'done' }).waitFor()
  const figures = await answer.locator('.figures').innerText()
  t.ok(Number(/Tokens in\n+(\d+)/.exec(figures)![1]) > 85, `the picture counts: ${figures}`)
  await page.getByText('As code', { exact: true }).click()
  t.match(await page.getByLabel('curl', { exact: true }).textContent(), /image_url/)
  for (const language of ['python', 'javascript']) await page.getByLabel('Language').selectOption(language)
  t.match(await page.getByLabel('JavaScript, OpenAI', { exact: true }).textContent(), /new OpenAI/)
  await page.getByText('The body as JSON', { exact: true }).click()
  const body = { model: 'demo', messages: [{ role: 'user', content: directive({ text: 'Typed by hand' }) }] }
  await page.getByLabel('Body of the request').fill(JSON.stringify(body))
  await page.getByLabel('Streamed').click()
  await page.getByRole('button', { name: 'Send', exact: true }).click()
  await answerOf(page).getByText('Typed by hand').waitFor()
  await page.getByRole('button', { name: 'Take the form again' }).click()
  await page.getByLabel('Body of the request').fill('{')
  await page.getByText('The body must be a JSON object.').first().waitFor()
})

t.test('a refusal is told, and what a model writes does nothing', async (t) => {
  const { page } = await open(t, 'key=poor&model=demo', { expected: [/429/] })
  await ask(page, 'Hello')
  await answerOf(page).getByText('quota_key_exceeded').waitFor()
  await page.getByRole('combobox', { name: 'Key', exact: true }).selectOption('ours')
  const evil = [
    '<img src=x onerror="document.title=1"> <script>document.title=1</script>',
    '![spy](https://evil.test/pixel.png) [bad](javascript:document.title=1) [data](data:text/html,x)',
    '[good](https://example.com/a) `<b>` \u202Eturned'
  ].join('\n\n')
  await ask(page, directive({ text: evil }))
  const answer = answerOf(page)
  await answer.getByText('‹U+202E›').waitFor()
  await answer.locator('.status', { hasText: 'done' }).waitFor()
  t.equal(await answer.locator('img, script').count(), 0)
  const links = await page.evaluate("[...document.querySelectorAll('.markdown a')].map((one) => [one.href, one.rel])")
  t.same(links, [['https://example.com/a', 'noopener noreferrer']])
  t.match(await page.title(), /^Playground/)
})

t.test('the secret of a key is typed in, and kept nowhere', async (t) => {
  const { page } = await open(t, 'model=demo')
  await page.getByRole('combobox', { name: 'Key', exact: true }).selectOption('Type the secret of a key')
  await page.getByLabel('Secret of the key').fill('sk-ours')
  await page.getByLabel('Secret of the key').press('Tab')
  await ask(page, directive({ text: 'By its secret' }))
  await answerOf(page).getByText('By its secret').waitFor()
  const kept = (await page.evaluate(
    '[location.href, JSON.stringify(sessionStorage), JSON.stringify(localStorage)].join(" ")'
  )) as string
  t.notMatch(kept, /sk-ours/)
})

t.test('a viewer is offered no keys by name, and runs with a secret', async (t) => {
  const token = 'the token of the owner'
  const local = await gateway(t, { ...settings, admin: { token } })
  const made = await request(t, local.adminUrl, {
    path: '/admin/v1/operators',
    headers: { authorization: `Bearer ${token}` },
    body: { name: 'eve', role: 'viewer', tenant: 'acme' }
  })
  const context = { extraHTTPHeaders: { authorization: `Bearer ${made.json().token}` } }
  const page = await openPage(t, `${local.adminUrl}/console/playground?key=ours&model=demo`, { context })
  await page.getByLabel('Secret of the key').fill('sk-ours')
  await page.getByLabel('Secret of the key').press('Tab')
  t.equal(await page.getByRole('combobox', { name: 'Key', exact: true }).count(), 0)
  await ask(page, directive({ text: 'As a viewer' }))
  await answerOf(page).getByText('As a viewer').waitFor()
  await answerOf(page)
    .getByText(/^\$0\.0/)
    .waitFor()
})

t.test('a realtime session by text and by microphone', async (t) => {
  const { page, local } = await open(t, 'key=ours&model=demo&view=realtime')
  await page.getByRole('button', { name: 'Begin a session' }).click()
  await page.locator('.status', { hasText: 'open' }).waitFor()
  const log = page.getByRole('log')
  await page.getByLabel('Say something').fill(directive({ text: 'Good day to you' }))
  await page.getByRole('button', { name: 'Say', exact: true }).click()
  await log.getByText(/^Model Good day to you/).waitFor()
  await page.getByText(/[1-9]\d* out/).waitFor()
  await page.getByLabel('Answers are spoken').click()
  await page.getByLabel('Say something').fill(directive({ text: 'Spoken words' }))
  await page.getByRole('button', { name: 'Say', exact: true }).click()
  await log.getByText(/^Model Spoken words/).waitFor()
  await page.getByRole('button', { name: 'Microphone on' }).click()
  await log.getByText('You are heard.').first().waitFor()
  await page.getByRole('button', { name: 'Microphone off' }).click()
  await inAllForms(page, 'playground-realtime', (form) => accessible(t, page, form))
  await page.setViewportSize({ width: 1280, height: 900 })
  await page.getByRole('button', { name: 'End the session' }).click()
  await log.getByText('The session has ended').waitFor()
  await eventually(async () => {
    const { data } = await local.admin('/admin/v1/requests?endpoint=realtime')
    return data.length > 0 && data.every((one: { playground?: object }) => one.playground !== undefined)
  })
})

t.test('speech, the transcript of a sound, and a picture', async (t) => {
  const { page } = await open(t, 'key=ours&model=voice&view=media')
  await page.getByLabel('Text', { exact: true }).fill('Hello')
  await page.getByRole('button', { name: 'Send', exact: true }).click()
  const answer = page.getByRole('region', { name: 'Answer' })
  await answer.locator('audio').waitFor()
  await eventually(async () => ((await page.evaluate("document.querySelector('audio').duration")) as number) > 0)
  await accessible(t, page, 'speech')
  await page.getByLabel('What to make').selectOption('transcription')
  await page.getByLabel('Model', { exact: true }).fill('whisper')
  await page.getByLabel('Model', { exact: true }).press('Tab')
  await page
    .getByLabel('Sound', { exact: true })
    .setInputFiles({ name: 'a.wav', mimeType: 'audio/wav', buffer: silence() })
  await page.getByRole('button', { name: 'Send', exact: true }).click()
  await answer.locator('pre').waitFor()
  t.ok((await answer.locator('pre').innerText()).length > 3)
  await page.getByLabel('What to make').selectOption('picture')
  await page.getByLabel('Model', { exact: true }).fill('painter')
  await page.getByLabel('Model', { exact: true }).press('Tab')
  await page.getByLabel('Description', { exact: true }).fill('A boat')
  await page.getByRole('button', { name: 'Send', exact: true }).click()
  await answer.getByRole('img', { name: 'Picture 1' }).waitFor()
  await eventually(async () => ((await page.evaluate("document.querySelector('img.made').naturalWidth")) as number) > 0)
})
