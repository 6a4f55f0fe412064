// What a Redis server answers, in whatever pieces it comes.
import t from 'tap'
import { RedisError, Replies } from '../../../../../core/store/cluster/redis/replies.ts'

const answers = Buffer.from(
  '+OK\r\n:12\r\n:-3\r\n$-1\r\n$0\r\n\r\n$5\r\na\r\nb\0\r\n-NOSCRIPT none of that name\r\n*-1\r\n' +
    '*3\r\n$6\r\nmaster\r\n:7\r\n*2\r\n$1\r\nü\r\n*0\r\n'.replace('$1\r\nü', '$2\r\nü') +
    '$3\r\nend\r\n'
)
const read = [
  Buffer.from('OK'),
  12,
  -3,
  null,
  Buffer.alloc(0),
  Buffer.from('a\r\nb\0'),
  'NOSCRIPT none of that name',
  null,
  [Buffer.from('master'), 7, [Buffer.from('ü'), []]],
  Buffer.from('end')
]

void t.test('answers are the same however their bytes are cut, also where their memory is used again', (t) => {
  for (let size = 1; size <= answers.length; size++) {
    const told: unknown[] = []
    const replies = new Replies((reply) => told.push(reply instanceof RedisError ? reply.message : reply))
    const memory = Buffer.alloc(size)
    for (let at = 0; at < answers.length; at += size) {
      const copied = answers.copy(memory, 0, at)
      replies.take(memory.subarray(0, copied))
    }
    t.strictSame(told, read, `in pieces of ${size} bytes`)
  }
  t.end()
})

void t.test('what is no answer of Redis is refused', (t) => {
  const replies = new Replies(() => t.fail('it was taken for one'))
  t.throws(() => replies.take(Buffer.from('HTTP/1.1 400 Bad Request\r\n\r\n')), /no Redis server/)
  t.end()
})
