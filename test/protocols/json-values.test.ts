// Values of JSON as translation reads and writes them: numbers, arguments, members of requests, data and addresses.
import t from 'tap'
import { Message } from '../../core/contract/message.ts'
import { writeMark } from '../../core/protocols/canonical/cache-mark.ts'
import {
  exactJson,
  parseAnswer,
  parseJson,
  parseObject,
  plainNumber,
  readArguments,
  readArgumentsObject,
  writeJson
} from '../../core/protocols/canonical/json.ts'
import {
  fileName,
  kindOf,
  readData,
  readUrl,
  standardBase64,
  textOf,
  writeDataUrl
} from '../../core/protocols/canonical/media.ts'
import { Members } from '../../core/protocols/canonical/members.ts'
import { budgetOf, effortOf, isEffort } from '../../core/protocols/canonical/reasoning.ts'
import { isDeep } from '../../core/protocols/object.ts'

type Json = any

const bad = { code: 'upstream_bad_response' }
const same = (text: string): string => JSON.stringify(parseJson(text))

t.test('numbers keep their digits where a double cannot hold them, and are numbers otherwise', async (t) => {
  for (const text of ['[12345678901234567890]', '[1.00000000000000]', '[0.12345678901234567]', '[1e400]'])
    t.equal(same(text), text)
  const [plain, long] = parseJson('[1.0000000000000,12345678901234567890]') as unknown[]
  t.equal(plain, 1, 'fifteen characters are held')
  t.equal(plainNumber(long), Number('12345678901234567890'))
  t.equal(plainNumber('a'), 'a')
  t.equal(same('{"a":1.50,"b":"1234567890123456"}'), '{"a":1.5,"b":"1234567890123456"}')
  t.equal(same('[1234567890123456]'), '[1234567890123456]')
  t.type((parseJson('[1234567890123456]') as Json)[0], 'number', 'a long one that is held is one')
  t.equal(same('{"\\u0061":12345678901234567890}'), '{"a":12345678901234567890}', 'also beside keys with escapes')
  for (const text of ['{', '1 2', '{"\\u0061":}', '[12345678901234567890'])
    t.throws(() => parseJson(text), { name: 'SyntaxError' }, text)
})

t.test('halves of characters are not written, and what only looks like one is', async (t) => {
  t.equal(writeJson({ a: '\ud83dx\ude00', b: '😀' }), '{"a":"\ufffdx\ufffd","b":"😀"}')
  t.equal(writeJson({ a: '\\ud83d', b: '\\\ud83d' }), '{"a":"\\\\ud83d","b":"\\\\\ufffd"}')
  t.equal(writeJson(['a\\udb']), '["a\\\\udb"]')
})

t.test('an event is parsed once where no digits can be lost', async (t) => {
  const event = (text: string): Message => Message.event(text, '')
  const plain = event('{"a":1}')
  t.equal(exactJson(plain), plain.json())
  t.equal(JSON.stringify(exactJson(event('{"a":12345678901234567890}'))), '{"a":12345678901234567890}')
  t.equal(exactJson(event('none 12345678901234567890')), undefined)
  t.throws(() => parseAnswer('none'), { ...bad, message: /not JSON/ })
})

t.test('arguments are an object or its text, and nothing else is taken for them', async (t) => {
  let deep: Json = {}
  while (!isDeep(deep)) deep = { a: deep }
  const deepText = JSON.stringify(deep)
  for (const none of [undefined, null, '']) t.equal(readArguments(none), '')
  t.equal(readArguments('{"a"'), '{"a"')
  t.equal(readArguments({ a: 1 }), '{"a":1}')
  for (const args of [5, [], true]) t.throws(() => readArguments(args), { ...bad, message: /not a JSON object/ })
  t.throws(() => readArguments(deep), { ...bad, message: /nested too deep/ })
  t.equal(readArgumentsObject('{"a":1}'), '{"a":1}')
  t.equal(readArgumentsObject(undefined), '')
  for (const args of ['{"a"', '[]', '5', deepText]) {
    t.throws(() => readArgumentsObject(args), bad)
    t.equal(parseObject(args), undefined)
  }
  t.strictSame([parseObject(' '), parseObject('{"a":1}')], [{}, { a: 1 }])
})

t.test('a member of the wrong kind is refused by its place and the right one, and null is absent', async (t) => {
  const fields = new Members({
    text: 'a',
    count: 2,
    flag: true,
    object: { inner: 1 },
    list: [{ a: 1 }, 5],
    words: ['a', 5],
    none: null
  })
  const refused = (read: () => unknown, param: string, expected: string): void =>
    void t.throws(read, { code: 'invalid_field', param, message: `${param} must be ${expected}.` })
  for (const name of ['none', 'absent']) {
    for (const read of ['string', 'number', 'count', 'flag', 'members', 'json', 'list', 'array', 'strings'] as const)
      t.equal(fields[read](name), undefined)
    for (const read of ['needString', 'needMembers'] as const)
      t.throws(() => fields[read](name), { code: 'missing_field', param: name, message: `${name} is missing.` })
  }
  t.strictSame(
    [fields.string('text'), fields.needString('text'), fields.number('count'), fields.flag('flag')],
    ['a', 'a', 2, true]
  )
  refused(() => fields.string('count'), 'count', 'a string')
  refused(() => fields.number('text'), 'text', 'a number')
  refused(() => fields.flag('count'), 'count', 'true or false')
  refused(() => fields.array('text'), 'text', 'an array')
  refused(() => fields.strings('words'), 'words[1]', 'a string')
  for (const read of ['members', 'json'] as const) refused(() => fields[read]('list'), 'list', 'an object')
  refused(() => fields.list('list'), 'list[1]', 'an object')
  refused(() => fields.members('object')!.string('inner'), 'object.inner', 'a string')
  t.strictSame(new Members({ a: ['b'] }, 'x').strings('a'), ['b'])
  const counted = (value: unknown, least?: number): number | undefined =>
    new Members({ n: value } as Json).count('n', least)
  t.strictSame([counted(0), counted(3, 3), counted(parseJson('1.0e0'))], [0, 3, 1])
  for (const value of [-1, 0.5, 2 ** 53]) refused(() => counted(value), 'n', 'a whole number, 0 or more')
  refused(() => counted(2, 3), 'n', 'a whole number, 3 or more')
})

t.test('what nobody read of a request is known, but for what asks for nothing', async (t) => {
  const fields = new Members({ a: 1, b: null, c: [], d: [1], e: { f: 1, g: 2 }, h: [{ i: 1 }, { j: 1 }], k: 1, l: 1 })
  t.strictSame(fields.unread(), ['a', 'd', 'e', 'h', 'k', 'l'])
  t.strictSame(fields.rest(), fields.unread())
  fields.value('a')
  fields.ignore('k', 'l')
  t.strictSame(
    ['c', 'b', 'd'].map((key) => fields.says(key)),
    [false, false, true]
  )
  fields.members('e')!.value('f')
  fields.list('h')![0]!.value('i')
  t.equal(fields.members('e'), fields.members('e'), 'an object inside is read once')
  t.strictSame(fields.rest(), ['e.g', 'h[1].j'])
  const spelled = new Members({ maxTokens: 1, in_ner: { topP: 1 } } as Json, '', (key) =>
    key.replace('_p', 'P').replace('_t', 'T').replace('N', '_n')
  )
  t.equal(spelled.number('max_tokens'), 1)
  t.equal(spelled.members('inNer')!.number('top_p'), 1)
  t.strictSame(spelled.rest(), [])
  t.strictSame(writeMark({}), {})
})

t.test('data have a media type and base64 in one alphabet, and an address is one', async (t) => {
  const refused = (read: () => unknown, expected: RegExp): void =>
    void t.throws(read, { code: 'invalid_field', param: 'p', message: expected })
  t.strictSame(readUrl('https://a.example/x', 'p'), { kind: 'url', url: 'https://a.example/x' })
  for (const url of ['', 'x', 'https://']) refused(() => readUrl(url, 'p'), /an address or a data URL/)
  const data = { kind: 'data', mimeType: 'image/png', data: 'AAAA' }
  t.strictSame(readUrl('DATA:image/PNG;charset=x;BASE64,AAAA', 'p'), data)
  for (const url of ['data:image/png,AAAA', 'data:image/png;base64', 'data:image/png;base64;x,AAAA'])
    refused(() => readUrl(url, 'p'), /with a media type and base64/)
  for (const type of ['', 'png', 'image/', 'image/p g', 'a/b/c'])
    refused(() => readData(type, 'AAAA', 'p'), /such as image\/png/)
  for (const text of ['AA A', 'AAAA===', '!']) refused(() => readData('image/png', text, 'p'), /must be base64/)
  t.strictSame(
    ['image/jpg', 'image/pjpeg', 'application/x-pdf', 'image/PNG'].map((type) => readData(type, 'AAAA', 'p').mimeType),
    ['image/jpeg', 'image/jpeg', 'application/pdf', 'image/png']
  )
  t.equal(readData('image/png', 'A-_A\n', 'p').data, 'A+/A')
  for (const [text, padded] of [
    ['', ''],
    ['AAAA', 'AAAA'],
    ['YQ', 'YQ=='],
    ['YWI', 'YWI='],
    ['YQ==', 'YQ=='],
    ['A'.repeat(22), `${'A'.repeat(22)}==`]
  ] as const)
    t.equal(standardBase64(text), padded)
  t.equal(writeDataUrl(data), 'data:image/png;base64,AAAA')
  t.strictSame(['image/a', 'audio/a', 'video/a', 'text/a', 'a'].map(kindOf), [
    'image',
    'audio',
    'video',
    'document',
    'document'
  ])
  t.strictSame([textOf({ data: 'SGk=' }, undefined), textOf({ data: 'SGk=' }, 'a.txt')], ['Hi', 'a.txt\nHi'])
  t.strictSame(
    [
      fileName(undefined, 'a/pdf'),
      fileName('x.txt', 'a/pdf'),
      fileName('x.123456789', 'a/pdf'),
      fileName('Dr. No', 'a/pdf')
    ],
    ['document.pdf', 'x.txt', 'x.123456789.pdf', 'Dr. No.pdf']
  )
})

t.test('how much to think is a share of the longest answer, or a budget as it was given', async (t) => {
  const budget = (effort: string | undefined, most?: number): number | undefined =>
    budgetOf({ effort, tokens: undefined, visible: undefined }, most)
  t.strictSame(
    ['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max'].map((effort) => budget(effort, 100_000)),
    [0, 2000, 10_000, 30_000, 60_000, 90_000, 95_000]
  )
  t.strictSame(
    [budget('high'), budget('low', 10_250), budget('low', 10_239), budget('low', 10_259)],
    [19_660, 1025, 1024, 1025]
  )
  t.strictSame([budget(undefined), budget('newer'), budget('toString')], [undefined, undefined, undefined])
  t.strictSame(['none', 'max', 'newer', 'toString'].map(isEffort), [true, true, false, false])
  const tokens = (count: number): number | undefined => budgetOf({ effort: 'low', tokens: count, visible: undefined })
  t.strictSame([tokens(-1), tokens(0), tokens(5)], [undefined, 0, 5])
  const word = (count: number | undefined, most?: number, effort?: string): string | undefined =>
    effortOf({ effort, tokens: count, visible: undefined }, most)
  t.strictSame(
    [-1, 0, 1, 1499, 1500, 4499, 4500].map((count) => word(count, 10_000)),
    [undefined, 'none', 'low', 'low', 'medium', 'medium', 'high']
  )
  t.strictSame([word(4915), word(4916), word(0, 9, 'newer'), word(undefined)], ['low', 'medium', 'newer', undefined])
})
