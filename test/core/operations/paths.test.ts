// Paths of operations: which template a path fits, and what stands at its parameters.
import t from 'tap'
import type { Operation } from '../../../core/contract/operation.ts'
import { Operations } from '../../../core/operations/operations.ts'

const operation = (
  name: string,
  method: Operation['method'],
  paths: string[],
  more: Partial<Operation> = {}
): Operation => ({
  name,
  endpoint: 'chat',
  summary: '',
  method,
  paths,
  protocol: 'openai-chat',
  body: 'none',
  ...more
})

t.test('a path leads to the most particular template that has the method', (t) => {
  const table = new Operations([
    operation('list', 'GET', ['/v1/models']),
    operation('detail', 'GET', ['/v1/models/{model...}']),
    operation('generate', 'POST', [
      '/v1beta/models/{model...}:generateContent',
      '/v1/models/{model...}:generateContent'
    ]),
    operation('count', 'POST', ['/v1/models/{model...}:countTokens']),
    operation('read', 'GET', ['/v1/responses/{id}']),
    operation('cancel', 'POST', ['/v1/responses/{id}/cancel']),
    operation('delete', 'DELETE', ['/v1/responses/{id}'])
  ])
  const found = (method: string, path: string): unknown => {
    const match = table.find(method, path, {}, '')
    return match?.operation ? [match.operation.name, ...Object.values(match.parameters)] : match?.allow
  }
  t.same(found('GET', '/v1/models'), ['list'])
  t.same(found('GET', '/v1/models/gpt-5'), ['detail', 'gpt-5'])
  t.same(found('GET', '/v1/models/org/name:free'), ['detail', 'org/name:free'])
  t.same(found('GET', '/v1/models/org%2Fname'), ['detail', 'org/name'], 'decoded after matching')
  t.same(
    found('GET', '/v1/models/demo:generateContent'),
    ['detail', 'demo:generateContent'],
    'a colon is part of a name where no verb is meant'
  )
  t.same(
    found('POST', '/v1/models/org/name:1:generateContent'),
    ['generate', 'org/name:1'],
    'the verb stands behind the last colon'
  )
  t.same(found('POST', '/v1beta/models/demo:generateContent'), ['generate', 'demo'])
  t.same(found('POST', '/v1/models/demo:countTokens'), ['count', 'demo'])
  t.same(found('GET', '/v1/responses/resp_1'), ['read', 'resp_1'])
  t.same(found('DELETE', '/v1/responses/resp_1'), ['delete', 'resp_1'])
  t.same(found('POST', '/v1/responses/resp_1/cancel'), ['cancel', 'resp_1'])
  t.same(found('POST', '/v1/responses/a%2Fb/cancel'), ['cancel', 'a/b'])
  t.same(found('PATCH', '/v1/responses/resp_1'), ['GET', 'DELETE'], 'the methods that it has')
  t.same(found('POST', '/v1/models'), ['GET'])
  for (const path of [
    '/v1/model',
    '/v1/models/',
    '/v1/responses/',
    '/v1/responses/a/b',
    '/v1/responses/%ff',
    '/',
    '',
    '/v1/responses/a/cancel/'
  ]) {
    t.equal(found('GET', path) ?? found('POST', path), undefined, path)
  }
  t.end()
})

t.test('headers and query decide between operations with one path', (t) => {
  const table = new Operations([
    operation('theirs', 'GET', ['/v1/models'], { when: (headers) => 'x-kind' in headers }),
    operation('queried', 'GET', ['/v1/models'], { when: (_headers, query) => query.includes('key=') }),
    operation('ours', 'GET', ['/v1/models'])
  ])
  t.equal(table.find('GET', '/v1/models', { 'x-kind': '1' }, '')?.operation?.name, 'theirs')
  t.equal(table.find('GET', '/v1/models', {}, 'key=1')?.operation?.name, 'queried')
  t.equal(table.find('GET', '/v1/models', {}, '')?.operation?.name, 'ours')
  t.throws(() => new Operations([operation('a', 'GET', ['/a']), operation('a', 'GET', ['/b'])]), /declared twice/)
  t.end()
})
