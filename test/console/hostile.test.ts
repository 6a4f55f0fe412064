// Texts of clients, upstreams and tenants that would be markup, scripts, links, or the ruin of a layout: planted in
// every place that the console shows, on one gateway, and looked at on every page. They stay text, with what cannot be
// seen named, nobody else is asked for anything, and nothing is wider than the window.
import { writeFileSync } from 'node:fs'
import t from 'tap'
import type { Test } from 'tap'
import { places } from '../../core/admin/console/app/places.ts'
import { openPage } from '../kit/browser.ts'
import type { Page } from '../kit/browser.ts'
import '../kit/built-console.ts'
import { ask } from '../kit/client.ts'
import { gateway, testKey, testModel } from '../kit/gateway.ts'
import { eventually } from '../kit/probe.ts'
import { bytes, head, Upstream } from '../kit/upstream.ts'

t.setTimeout(600_000)

const run = 'globalThis.hostile=1'
const far = 'http://elsewhere.test/x'
const long = `${'W'.repeat(600)}${'ẅ̈̈'.repeat(40)}`
/** The invisible, the turned around, control characters, and half a character. */
const strange = '\u202eturned\u2066\u200b\u00ad\u{e0041}\u3164\u034f\ufeff\u0000\u0007\u001b[31m\ud800'
/** What a text anywhere may be. */
const evil = [
  `<img src="${far}" onerror="${run}">`,
  `"><script>${run}</script>`,
  `'-${run}-'\${${run}}{{${run}}}`,
  `<a href="javascript:${run}">a</a><base href="${far}"><style>*{display:none}</style><svg/onload=${run}>`,
  `<meta http-equiv=refresh content="0;url=${far}">`,
  strange,
  long
].join(' ')
/** A name of a model has no spaces, and is of at most 256 characters. */
const evilModel = `m<img/src=${far}/onerror=${run}>"'\u202e\u200b${'W'.repeat(100)}`
/** A tag is of 64 printable characters. */
const evilTag = `=<img/src=${far}/onerror=${run}>`
/** Names have letters alone, which may be wide, or written from right to left. */
const wideName = `W${'w'.repeat(126)}`
const turnedName = `א${'ב'.repeat(40)}`

/** What a model answers in the playground, as Markdown that others would follow. */
const markdown = [
  `![x](${far}) [a](javascript:${run}) [b](data:text/html,<script>${run}</script>) [c](//elsewhere.test) <b>bold</b>`,
  `[d]( javascript:${run} "t") ![e](data:image/svg+xml,<svg/onload=${run}>) <javascript:${run}>`,
  `# ${evil}`,
  `- ${evil}`,
  `| ${evil} |`,
  `\`\`\`${evil}`,
  evil
].join('\n')

function answerOf(text: string): object {
  return {
    id: evil.slice(0, 60),
    object: 'chat.completion',
    model: evilModel,
    choices: [
      {
        index: 0,
        finish_reason: 'tool_calls',
        message: {
          role: 'assistant',
          content: text,
          annotations: [{ type: 'url_citation', url_citation: { url: `javascript:${run}`, title: evil } }],
          tool_calls: [
            {
              id: 'call_<1>',
              type: 'function',
              function: { name: evil.slice(0, 200), arguments: JSON.stringify({ a: evil }) }
            }
          ]
        }
      }
    ],
    usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 }
  }
}

/** Nothing ran, nothing became an element, and nothing that cannot be seen is shown as it is. */
async function check(t: Test, page: Page, what: string): Promise<void> {
  for (const width of [1280, 360]) {
    await page.setViewportSize({ width, height: 800 })
    await page.evaluate('new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)))')
    const found = await page.evaluate(`({
      ran: globalThis.hostile,
      wide: document.documentElement.scrollWidth > innerWidth && document.documentElement.scrollWidth,
      elements: [...document.querySelectorAll('body script, body base, body meta, body style, body iframe, body object, main svg[onload]')]
        .filter((one) => one.tagName !== 'SCRIPT' || !one.src).map((one) => one.outerHTML.slice(0, 100)),
      handlers: [...document.querySelectorAll('*')].flatMap((one) => [...one.attributes])
        .filter(({ name }) => name.startsWith('on')).map(({ name, value }) => name + '=' + value),
      links: [...document.querySelectorAll('a[href], img[src], form[action]')]
        .map((one) => one.href ?? one.src ?? one.action).filter((to) => new URL(to).origin !== location.origin),
      hidden: [...document.body.innerText.matchAll(/.{0,20}[\\0-\\x08\\x0b-\\x1f\\u202e\\u2066\\u200b\\ufeff\\u3164\\u034f\\u{e0041}].{0,20}/gu)].slice(0, 3).map(([text]) => JSON.stringify(text))
    })`)
    t.same(
      found,
      { ran: undefined, wide: false, elements: [], handlers: [], links: [], hidden: [] },
      `${what}, ${width} px wide`
    )
  }
  await page.setViewportSize({ width: 1280, height: 800 })
}

t.test('texts of others stay text on every page', async (t) => {
  const upstream = await Upstream.start(t)
  const other = await Upstream.start(t)
  const local = await gateway(
    t,
    {
      channels: {
        first: { models: { [testModel]: evilModel } },
        [wideName]: {
          protocol: 'openai',
          base_url: other.url.href,
          credential: 'x',
          private: true,
          models: { [evilModel.replaceAll(/\p{Cf}/gu, '')]: evilModel }
        }
      },
      models: {
        [testModel]: { state: 'gateway' },
        [evilModel.replaceAll(/\p{Cf}/gu, '')]: { price: { input: 1, output: 1 } }
      },
      state: { key: 'a secret of the operator that nobody else knows' },
      tenants: { acme: { tags: { team: evilTag } }, [turnedName]: {}, [wideName]: {} },
      keys: [
        { name: 'test', key: testKey, tenant: 'acme', tags: { formula: evilTag } },
        { name: wideName, key: 'sk-wide-000000000000000000', tenant: wideName },
        { name: turnedName, key: 'sk-turned-0000000000000000', tenant: turnedName }
      ]
    },
    { upstreams: { first: upstream } }
  )
  const admin = (method: string, path: string, body?: unknown, headers: Record<string, string> = {}) =>
    ask(t, local.adminUrl, { method, path: `/admin/v1${path}`, headers, ...(body !== undefined && { body }) })

  // What a client sends, and what an upstream says to it.
  upstream.json(
    { error: { message: evil, type: evil, code: evil, param: evil } },
    { status: 400, headers: { 'x-request-id': evilTag } }
  )
  upstream.json({ error: { message: evil, type: evil, code: evil } }, { status: 500 })
  upstream.always(
    head(200, { 'content-type': 'application/json', connection: 'close' }),
    bytes(JSON.stringify(answerOf(markdown))),
    ({ socket }) => void socket.end()
  )
  const chat = {
    user: evil,
    metadata: { [evil.slice(0, 60)]: evil.slice(0, 500) },
    messages: [
      { role: 'user', content: evil, name: 'n' },
      { role: 'assistant', tool_calls: [{ id: 'c', type: 'function', function: { name: 'f', arguments: evil } }] },
      { role: 'tool', tool_call_id: 'c', content: evil }
    ]
  }
  const odd = { 'user-agent': evilTag, 'x-request-id': evilTag, 'x-forwarded-for': evilTag, referer: evilTag }
  await local.chat(chat)
  await local.chat(chat)
  await local.ask({ path: '/v1/chat/completions', headers: odd, body: { model: evil, ...chat } })
  await local.ask({ path: '/v1/chat/completions', headers: odd, body: { model: evilModel, ...chat } })
  for (const key of ['sk-wide-000000000000000000', 'sk-turned-0000000000000000'])
    await local.ask({
      path: '/v1/chat/completions',
      headers: { authorization: `Bearer ${key}` },
      body: { model: testModel, ...chat }
    })
  const kept = await local.ask({ path: '/v1/responses', body: { model: testModel, input: evil, metadata: { a: 'b' } } })
  t.equal(kept.status, 200, 'a response is kept')

  // What tenants, operators and people without any right write.
  await admin('POST', '/keys', {
    tenant: 'acme',
    name: 'stored',
    tags: { formula: evilTag },
    limits: { models: { [`<img/onerror=${run}>*`]: { rpm: 1 } } }
  })
  await admin('PATCH', '/keys/stored', { tags: { formula: '<b>2</b>' } })
  await admin('POST', '/tenants', { name: `t${'ö'.repeat(120)}` })
  await admin('POST', '/operators', { name: wideName, role: 'viewer', tenant: turnedName })
  for (const path of [`/keys/${encodeURIComponent(evil.slice(0, 300).toWellFormed())}`, '/keys/none'])
    await admin('DELETE', path, undefined, { authorization: 'Bearer none', 'user-agent': evilTag })
  await admin('DELETE', `/keys/${encodeURIComponent(evil.slice(0, 300).toWellFormed())}`)
  await admin('PATCH', '/keys/test', { budget: null })
  writeFileSync(local.file, `# ${evil.replaceAll(/[\p{Cc}\p{Cs}]/gu, '')}\n"${evilModel.replaceAll('"', '')}": 1\n`)
  t.equal((await admin('POST', '/reload')).status, 422)
  await eventually(async () => (await admin('GET', '/requests')).json().data.length === 7)

  const page = await openPage(t, `${local.adminUrl}/console/overview`)
  page.on('dialog', (dialog) => t.fail(`a dialog: ${dialog.message()}`))
  page.on('popup', (popup) => t.fail(`a window: ${popup.url()}`))
  const visit = async (path: string, seen: RegExp | string): Promise<void> => {
    await page.goto(`${local.adminUrl}/console/${path}`)
    await page.locator('main h1').waitFor()
    await page.locator('main').getByText(seen).filter({ visible: true }).first().waitFor()
    await eventually(async () => (await page.locator('main [aria-busy=true]').count()) === 0)
    // What is folded is looked at as well.
    await page.evaluate("document.querySelectorAll('main details:not(.choice)').forEach((one) => (one.open = true))")
    await check(t, page, decodeURIComponent(path).slice(0, 60))
  }
  const wide = new RegExp(`^${wideName.slice(0, 20)}`)
  const seen: Readonly<Record<string, RegExp | string>> = {
    overview: /reload was refused/,
    requests: /<img/,
    playground: 'Playground',
    spend: /<img|test-model/,
    keys: wide,
    tenants: wide,
    operators: wide,
    channels: wide,
    models: /m<img/,
    chain: 'protocol-translate',
    configuration: /<img|Configuration/,
    audit: 'key.change',
    ledger: 'Ledger',
    sessions: 'Sessions'
  }
  for (const { path } of places) await visit(path, seen[path]!)

  const { data: records } = (await admin('GET', '/requests')).json()
  for (const { request_id: id } of records) await visit(`requests/${id}`, 'Raw record')
  await visit(`requests/${kept.headers['x-request-id']}`, 'Raw record')
  await page.getByRole('button', { name: 'Show messages' }).click()
  await page.locator('.kept-message').first().waitFor()
  await page.getByRole('button', { name: 'Explain again' }).click()
  await page.getByText(/Now it would be/).waitFor()
  await check(t, page, 'kept messages, and an explanation')
  for (const { seq } of (await admin('GET', '/audit')).json().data) await visit(`audit/${seq}`, 'Before and after')
  for (const path of [
    'audit?object=stored',
    'spend?by=model&and=tag',
    'spend?by=tag&and=key',
    'spend?by=day&and=tag',
    'overview?span=hour'
  ])
    await visit(path, /./)

  // What a reader opens over a page.
  await page.keyboard.press('Control+k')
  await page.getByRole('combobox', { name: 'Page or command' }).fill(evil)
  await check(t, page, 'the palette')
  await page.keyboard.press('Escape')
  await visit('keys/stored', 'stored')
  await page.getByRole('button', { name: 'Revoke' }).first().click()
  await page.locator('dialog[open]').waitFor()
  await check(t, page, 'the question whether to revoke')
  await page.keyboard.press('Escape')
  await visit(`tenants/${wideName}`, wide)
  await visit(`operators/${wideName}`, wide)
  await visit(`channels/${wideName}`, wide)
  await visit('channels/first', 'first')
  await visit(`models/${encodeURIComponent(evilModel.replaceAll(/\p{Cf}/gu, ''))}`, /m<img/)
  await visit('models?view=compare', 'Compare')
  await visit('configuration/files', /problems|Problems/)
  await visit('configuration/history', /start/)

  for (const protocol of ['chat', 'responses', 'messages', 'gemini']) {
    await visit(`playground?key=test&model=${testModel}&protocol=${protocol}`, 'Playground')
    await page
      .getByLabel(/^Text of user message/)
      .last()
      .fill(evil.toWellFormed())
    await page.getByRole('button', { name: 'Send', exact: true }).click()
    const answer = page.getByRole('region', { name: `Answer of ${testModel}` })
    await answer.getByText(/Call of/).waitFor()
    await check(t, page, `the answer in the playground, ${protocol}`)
    await answer.getByLabel('Plain text').check()
    await check(t, page, `the answer in the playground as plain text, ${protocol}`)
  }
})
