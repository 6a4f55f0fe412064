// The commands of tenants, projects, members and keys, without a gateway that runs.
import { join } from 'node:path'
import t from 'tap'
import { startGateway } from '../../../core/container.ts'
import { silentLog } from '../../../core/telling/log.ts'
import { ask } from '../../kit/client.ts'
import { sluiceEach } from '../../kit/command.ts'
import { gateway } from '../../kit/gateway.ts'

t.test('commands make, change, list and close them, and the next gateway has them', async (t) => {
  const local = await gateway(t, { tenants: { acme: {} } })
  const run = (...lines: string[]): ReturnType<typeof sluiceEach> =>
    sluiceEach(lines.map((line) => [...line.split(' '), '--config', local.file]))
  await local.gateway.close()
  const store = join(local.file, '..', 'sluice.db')
  const expected: [line: string, ended: object][] = [
    ['tenants create late --models demo --tags plan=gold', { code: 0, out: '', err: `late was made in ${store}.\n` }],
    ['projects create late/app --budget 3/day --rpm 60', { code: 0 }],
    ['members create late/app/eve --json', { code: 0, out: /^\{"name":"eve","tenant":"late","project":"app"/ }],
    ['projects change late/app --budget none --rpm 5 --json', { code: 0, out: /"limits":\{"rpm":5\},"budget":\[\]/ }],
    [
      'tenants list',
      {
        code: 0,
        out: /^NAME +STATE +SOURCE +MODELS +BUDGET +EXPIRES +TAGS\nacme +active +file +\* +- +- +-\nlate +active +store +demo +- +- +plan=gold\n$/
      }
    ],
    ['keys create --tenant late --project app --name app', { code: 0 }],
    [
      'keys rotate app --overlap 1h',
      {
        code: 0,
        out: /^sk-\w{43}\n$/,
        err: /^app has a new secret in .*, which is not shown again\. The old secret is valid until 20\S+\.\n$/
      }
    ],
    ['keys change app', { code: 2, err: /nothing to change/ }],
    ['keys change app --enabled maybe', { code: 2, err: /yes or no/ }],
    ['projects create late', { code: 2, err: /must be like TENANT\/PROJECT/ }],
    ['projects create lade/app', { code: 1, err: /no tenant "lade", did you mean "late"\?/ }]
  ]
  const lines = expected.map(([line]) => line)
  const ended = await run(...lines)
  for (const [index, [line, wanted]] of expected.entries()) t.match(ended[index], wanted, line)
  const again = await startGateway({ config: local.file, log: silentLog })
  t.teardown(() => again.close())
  const issued = ended[lines.findIndex((line) => line.startsWith('keys create'))]!
  const reply = await ask(t, again.url, {
    path: '/v1/chat/completions',
    headers: { authorization: `Bearer ${issued.out.trim()}` },
    body: { model: 'demo', messages: [{ role: 'user', content: 'Hi' }] }
  })
  t.equal(reply.status, 200, 'what was made without a gateway is valid in it')
  await again.close()
  const [closed, refused] = await run('tenants close late', 'tenants change acme --models x')
  t.match(closed, { code: 0, err: `late is closed in ${store}.\n` })
  t.match(refused, { code: 1, err: /change it there/ })
})

t.test('values with commas are given in lists with a backslash before the comma', async (t) => {
  const local = await gateway(t)
  await local.gateway.close()
  const lines = [
    String.raw`tenants create late --tags note=a\,b,path=c:\\,plan=a\b --models demo,x\,y* --json`,
    'tenants create late2 --tags note=a,b',
    'help tenants create'
  ]
  const [made, refused, help] = await sluiceEach(
    lines.map((line) => [...line.split(' '), ...(line.startsWith('help') ? [] : ['--config', local.file])])
  )
  t.equal(made!.code, 0, made!.err)
  t.match(JSON.parse(made!.out), {
    models: ['demo', 'x,y*'],
    tags: { note: 'a,b', path: 'c:\\', plan: 'a\\b' }
  })
  t.match(refused, { code: 2, err: /--tags is "b": it must be like team=search,env=prod/ })
  t.match(help!.out, String.raw`In a list, \, is a comma that belongs to a value, and \\ is a backslash.`)
})
