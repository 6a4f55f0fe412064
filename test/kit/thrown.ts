// Not a test by itself: tests with uncaught errors, for runner.test.ts.
import t from 'tap'

const never = new Promise<void>(() => {})

t.test('by a timer', async () => {
  setTimeout(() => {
    throw new Error('first')
  }, 1)
  await never
})

t.test('outer', async (t) => {
  await t.test('by a promise', async () => {
    void Promise.reject(new Error('second'))
    await never
  })
})

t.test('by nobody', async (t) => {
  t.pass('is well')
})
