// What a request is charged for is what an upstream finds in its form, whichever of the usual readers reads it there.
import t from 'tap'
import { RequestBody } from '../../core/bodies/body.ts'
import { BodyMemory } from '../../core/bodies/body-memory.ts'
import type { BodySource } from '../../core/clients/body-source.ts'
import { GatewayError } from '../../core/errors.ts'
import { readForm } from '../../core/exchange/requests/form-reader.ts'
import { checkMembers } from '../../core/exchange/state/request-members.ts'
import { transcriptions } from '../../core/operations/audio.ts'
import { Watchdog } from '../../core/watchdog/watchdog.ts'
import { chance } from '../kit/chance.ts'
import { formOf } from '../kit/form.ts'
import { readByAll } from './readers/readers.ts'
import type { Sent } from './readers/readers.ts'

// Only the first run installs and compiles, which may take a while.
t.setTimeout(600_000)
const watchdog = new Watchdog()
const bounds = { size: 1e6, time: 60_000, memory: new BodyMemory(1e8), watchdog, whose: { over: undefined } }
const mark = 'the-boundary'
const mixed = `multipart/form-data; boundary=${mark}`
const charged = 'cheap'

/** The model that the gateway goes by; undefined when it refuses the form. */
async function modelOf({ type, body }: Sent): Promise<string | undefined> {
  const source: BodySource = {
    receive(sink) {
      sink.data(body)
      sink.end()
    },
    pause() {},
    resume() {},
    abandon() {}
  }
  try {
    const form = await readForm(source, type, body.length, bounds)
    form.upload.close()
    checkMembers(RequestBody.form(form), transcriptions)
    return form.string('model')
  } catch (error) {
    if (error instanceof GatewayError) return undefined
    throw error
  }
}

const head = (line: string, value = 'dear'): string => `--${mark}\r\n${line}\r\n\r\n${value}\r\n`
const named = (name: string, value = 'dear'): string => head(`Content-Disposition: form-data; name=${name}`, value)
const field = (name: string, value: string): string => named(`"${name}"`, value)
const file = (value: string, more = ''): string =>
  head(`Content-Disposition: form-data; name="file"; filename="f.wav"${more}`, value)
const end = `--${mark}--\r\n`
const first = field('model', charged)
const inner = (line: string, boundary = mark): string =>
  `x${line}--${boundary}${line === '\r\n' ? '\r\n' : line}Content-Disposition: form-data; name="model"${line}${line}dear`

/** Blanks and breaks of any kind, as they stand in UTF-8 and in Latin1. */
const blanks = [
  '\r',
  '\n',
  '\v',
  '\f',
  '\0',
  '\x1c',
  '\x1d',
  '\x1e',
  '\x1f',
  ' ',
  '\t',
  '\x85',
  '\u0085',
  '\u00a0',
  '\u2003',
  '\u2028',
  '\u2029',
  '\u200b',
  '\ufeff',
  '\u3000'
]

/** Each says `cheap` to one reader, and was thought of to say `dear` to another. */
const attacks: Record<string, string | { body: string; type: string }> = {
  ...Object.fromEntries(
    blanks.flatMap((blank) => {
      const shown = JSON.stringify(blank)
      return [
        [`${shown} before a delimiter in a field`, first + field('prompt', inner(blank)) + end],
        [`${shown} before a delimiter in a file`, first + file(inner(blank)) + end],
        [`${shown} before the last delimiter`, first + field('prompt', `x${blank}--${mark}--\r\n`) + end],
        [
          `${shown} before a delimiter with its CR LF`,
          `${first}${field('prompt', `x${blank}--${mark}\r\n${named('"model"').split('\r\n').slice(1).join('\r\n')}`)}${end}`
        ],
        [
          `${shown} behind a delimiter`,
          `${first}${field('prompt', 'x')}--${mark}${blank}\r\n${named('"model"').split('\r\n').slice(1).join('\r\n')}${end}`
        ],
        [`${shown} before a name`, first + field(`${blank}model`, 'dear') + end],
        [`${shown} behind a name`, first + field(`model${blank}`, 'dear') + end],
        [`${shown} within a name`, first + field(`mod${blank}el`, 'dear') + end],
        [`${shown} before a key`, first + head(`Content-Disposition: form-data;${blank}name="model"`) + end],
        [`${shown} behind a key`, first + head(`Content-Disposition: form-data; name${blank}="model"`) + end],
        [`${shown} before a value`, first + head(`Content-Disposition: form-data; name=${blank}"model"`) + end],
        [
          `${shown} in the name of a header`,
          first + head(`Content-Disposition${blank}: form-data; name="model"`) + end
        ],
        [`${shown} between headers`, first + head(`X: y${blank}Content-Disposition: form-data; name="model"`) + end],
        [`${shown} in a head`, first + head(`Content-Disposition: form-data; name="x"${blank}; name="model"`) + end],
        [
          `${shown} in place of an empty line`,
          `${first}--${mark}\r\nContent-Disposition: form-data; name="a"${blank}${blank}\r\n--${mark}\r\n${field('model', 'dear')}${end}`
        ],
        [`${shown} around the model`, field('model', `${charged}${blank}`) + end]
      ] as [string, string][]
    })
  ),
  ...Object.fromEntries(
    [
      'model[]',
      'model[0]',
      'model[a]',
      '[model]',
      'model.',
      'model%00',
      '%6dodel',
      'mod%65l',
      'model%0D%0A',
      'model%22',
      '&#109;odel',
      '=?utf-8?q?model?=',
      '=?utf-8?b?bW9kZWw=?=',
      "utf-8''model",
      '<model>',
      "'model'",
      'ｍodel',
      'Model',
      'MODEL',
      '__proto__',
      '_charset_',
      'model=',
      'model;',
      'model,',
      'x"; name="model',
      'x\\"; name=\\"model',
      'model\\'
    ].map((name) => [`the name ${name}`, first + field(name, 'dear') + end])
  ),
  ...Object.fromEntries(
    [
      "'model'",
      'model',
      '<model>',
      '"model"; x',
      '"x"; name*="model"',
      '"x"; name*=utf-8\'\'model',
      '"x"; name*0="mod"; name*1="el"',
      '"x"; NAME="model"',
      '"x";name="model"',
      '"x";;name="model"',
      '"x", name="model"',
      '"x" ; name = "model"',
      '"x"; filename*=utf-8\'\'f',
      '"x"; filename=""',
      '"x"; filename="\\"; name="model"',
      '"x"; filename="\\"; name=model; y="',
      '"x"; filename=\'"; name="model"; y=\'',
      '"x"; y="\\"; name=\\"model\\""',
      'x(comment); name=model',
      '"x"; y="(" ; name="model" ; z=")"',
      '(c)"model"',
      '"mo"del'
    ].map((value) => [`name=${value}`, first + named(value) + end])
  ),
  'a type with a name':
    first +
    head('Content-Disposition: form-data; name="model"\r\nContent-Type: text/plain; name="f.txt"', charged) +
    end,
  'a folded line': first + head('Content-Disposition: form-data;\r\n name="model"') + end,
  'a line twice':
    first + head('Content-Disposition: form-data; name="x"\r\nContent-Disposition: form-data; name="model"') + end,
  base64:
    field('prompt', 'x') +
    head('Content-Disposition: form-data; name="model"\r\nContent-Transfer-Encoding: base64', 'ZGVhcg==') +
    end,
  'quoted-printable':
    head('Content-Disposition: form-data; name="model"\r\nContent-Transfer-Encoding: quoted-printable', 'che=61p') +
    end,
  ...Object.fromEntries(
    [
      'charset=utf-7',
      'charset="utf-16"',
      'charset=utf-8; charset=utf-16',
      "charset*=utf-7''utf-7",
      'charset*0=utf-7',
      "charset='utf-7'",
      'x="; charset=utf-8; y="; charset=utf-7',
      'charset = utf-7',
      '(c) charset=utf-7'
    ].map((parameter) => [
      `a field in ${parameter}`,
      head(`Content-Disposition: form-data; name="model"\r\nContent-Type: text/plain; ${parameter}`, '+AGQAZQBhAHI-') +
        end
    ])
  ),
  'a form in a form':
    first +
    head(
      `Content-Disposition: form-data; name="files"\r\nContent-Type: multipart/mixed; boundary=inner`,
      `--inner\r\nContent-Disposition: form-data; name="model"\r\n\r\ndear\r\n--inner--`
    ) +
    end,
  'a form in a file':
    first +
    head(
      `Content-Disposition: form-data; name="file"; filename="f"\r\nContent-Type: Multipart/Form-Data; boundary=inner`,
      `--inner\r\nContent-Disposition: form-data; name="model"\r\n\r\ndear\r\n--inner--`
    ) +
    end,
  'a message in a file':
    first +
    head(
      `Content-Disposition: form-data; name="file"; filename="f"\r\nContent-Type: message/rfc822`,
      'Content-Disposition: form-data; name="model"\r\n\r\ndear'
    ) +
    end,
  'a message in parts':
    first +
    head(
      `Content-Disposition: form-data; name="x"\r\nContent-Type: message/partial`,
      'Content-Disposition: form-data; name="model"\r\n\r\ndear'
    ) +
    end,
  'the charset as a field': field('_charset_', 'utf-7') + first + field('+AG0AbwBkAGUAbA-', 'dear') + end,
  'a model and a list of them': first + field('model[]', 'dear') + end,
  'another form behind the end': first + end + first.replace(charged, 'dear') + end,
  'the boundary in a preamble': `x\n${field('model', 'dear')}`.replace('x\n', 'x\r\n') + first + end,
  'no end': first + field('model', 'dear'),
  ...Object.fromEntries(
    [
      'boundary=other; boundary=the-boundary',
      'boundary=the-boundary; boundary=other',
      'boundary="other"; boundary=the-boundary',
      'BOUNDARY=other; boundary=the-boundary',
      "boundary*=utf-8''other; boundary=the-boundary",
      'boundary*0=other; boundary=the-boundary',
      'x="; boundary=other; y="; boundary=the-boundary',
      'x="\\"; boundary=other; y="; boundary=the-boundary',
      "x='; boundary=other; y='; boundary=the-boundary",
      'boundary=other, multipart/form-data; boundary=the-boundary',
      ' boundary = other; boundary=the-boundary',
      'boundary=other;; boundary=the-boundary',
      '(boundary=other) ; boundary=the-boundary'
    ].map((parameters) => [
      `the type with ${parameters}`,
      {
        type: `multipart/form-data; ${parameters}`,
        body: `--${mark}\r\nContent-Disposition: form-data; name="model"\r\n\r\n${charged}\r\n--${mark}\r\nContent-Disposition: form-data; name="file"; filename="f"\r\n\r\n\r\n--other\r\nContent-Disposition: form-data; name="model"\r\n\r\ndear\r\n--other--\r\n\r\n--${mark}--\r\n`
      }
    ])
  ),
  ...Object.fromEntries(
    ['utf-7', 'utf-16', 'latin1'].map((charset) => [
      `a form in ${charset}`,
      { type: `${mixed}; charset=${charset}`, body: first + field('+AG0AbwBkAGUAbA-', 'dear') + end }
    ])
  )
}

/** What nobody could take for anything else. */
const honest: Record<string, Sent> = {
  'a model and a file': formOf([
    { name: 'model', value: charged },
    { name: 'file', value: 'RIFF', filename: 'ä ö.wav', type: 'audio/wav' }
  ]),
  lists: formOf([
    { name: 'model', value: charged },
    { name: 'include[]', value: 'logprobs' },
    { name: 'include[]', value: 'x' }
  ]),
  'lines in a prompt': formOf([
    { name: 'prompt', value: 'One\r\n\r\n--\r\n-- the-boundary\n--the-boundar' },
    { name: 'model', value: charged }
  ]),
  'a type of a field': formOf([
    { name: 'model', value: charged, type: 'text/plain; charset=utf-8' },
    { name: 'x', value: '{}', type: 'application/json' }
  ]),
  'a quoted boundary': {
    type: 'multipart/form-data; charset=utf-8; boundary="the-boundary"',
    body: formOf([{ name: 'model', value: charged }]).body
  },
  'a boundary of a browser': formOf(
    [
      { name: 'model', value: charged },
      { name: 'image[]', value: 'x', filename: 'a.png' }
    ],
    '----WebKitFormBoundaryePkpFF7tjBAqx29L'
  ),
  'a boundary of curl': formOf([{ name: 'model', value: charged }], '------------------------d74496d66958873e')
}

/** Damages forms by chance with what readers are known to differ about. */
function* damaged(runs: number): Generator<Sent> {
  const { below, pick } = chance(Number(process.env['SLUICE_SEED'] ?? 5))
  const bits = [
    '\r\n',
    '\r',
    '\n',
    '--',
    `--${mark}`,
    `\r\n--${mark}`,
    `\n--${mark}\n`,
    `\r--${mark}\r`,
    '\r\n\r\n',
    '\n\n',
    '"',
    "'",
    ';',
    '; ',
    '\\',
    ':',
    '=',
    ' ',
    '\t',
    '\0',
    '*',
    '(',
    ')',
    '%',
    'name',
    'model',
    'name="model"',
    '; name="model"',
    'filename',
    'filename="f"',
    'Content-Disposition: form-data; name="model"\r\n\r\ndear',
    'Content-Type: ',
    'charset=utf-7',
    ...blanks
  ]
  const sound =
    first + field('prompt', 'Say it.') + file('RIFF 1234') + field('note', `dear\n--${mark.slice(0, -1)}`) + end
  for (let run = 0; run < runs; run++) {
    let body = sound
    for (let n = 1 + below(4); n > 0; n--) {
      const at = below(body.length + 1)
      const bit = Array.from({ length: 1 + below(3) }, () => pick(bits)).join('')
      body = body.slice(0, at) + bit + body.slice(at + below(4))
    }
    yield { type: mixed, body: Buffer.from(body) }
  }
}

t.test('every reader finds the model that is charged, or the form is refused', async (t) => {
  const forms = new Map<string, Sent>()
  for (const [what, attack] of Object.entries(attacks)) {
    const { body, type } = typeof attack === 'string' ? { body: attack, type: mixed } : attack
    forms.set(what, { type, body: Buffer.from(body) })
    forms.set(`${what}, in Latin1`, { type, body: Buffer.from(body, 'latin1') })
  }
  for (const sent of damaged(process.env['SLUICE_LONG'] === '1' ? 20_000 : 1500))
    forms.set(`damaged: ${JSON.stringify(String(sent.body))}`, sent)
  for (const [what, sent] of Object.entries(honest)) forms.set(what, sent)
  const { seen, missing } = await readByAll([...forms.values()])
  if (missing.length > 0) t.comment(`readers that need ${missing.join(' and ')} are left out: the machine has none`)
  const differing: string[] = []
  let [accepted, at] = [0, 0]
  for (const [what, sent] of forms) {
    const model = await modelOf(sent)
    const read = seen[at++]!
    if (what in honest) t.equal(model, charged, what)
    if (model === undefined) continue
    accepted++
    for (const [reader, fields] of Object.entries(read)) {
      const models = fields?.filter(([name]) => name.trim().toLowerCase() === 'model').map(([, value]) => value)
      if (models && JSON.stringify(models) !== JSON.stringify([model]))
        differing.push(`${reader} finds ${JSON.stringify(models)}, not ${model}: ${what}`)
    }
  }
  t.same(differing, [])
  t.ok(accepted > 50, `${accepted} of ${forms.size} were accepted`)
})
