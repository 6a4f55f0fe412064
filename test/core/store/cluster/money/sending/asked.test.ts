// Requests that are decided in one batch: each is, as if it had come by itself.
import t from 'tap'
import type { Scope } from '../../../../../../core/catalogue/caller.ts'
import { GatewayError } from '../../../../../../core/errors.ts'
import { brokenIn, logFolder, moneyBook, moneyNode } from '../../../../../kit/cluster-money.ts'
import { postgresMissing } from '../../../../../kit/postgres.ts'
import { scope } from '../../../embedded/sample.ts'
import { hold } from '../oracle.ts'

t.test(
  'those of a caller are decided by what each asks for',
  { skip: postgresMissing, timeout: 120_000 },
  async (t) => {
    const url = await moneyBook()
    const { ledger } = await moneyNode(t, url, 'one', { folder: logFolder(t) })
    const scopes = (tenant: string, limit?: bigint): Scope[] => [
      scope('tenant', tenant, limit, 'month'),
      scope('key', 'laptop', 10n ** 15n, 'day')
    ]
    const ask = (of: Scope[], ...amounts: bigint[]): Promise<(string | bigint)[]> =>
      Promise.all(
        amounts.map((amount) =>
          hold(ledger, of, amount).then(
            () => amount,
            (error: unknown) => (error instanceof GatewayError ? error.code : String(error))
          )
        )
      )
    await ask(scopes('one', 1000n), 1n)
    const few = 'quota_tenant_exceeded'
    t.same(await ask(scopes('all fit', 100n), 60n, 30n, 10n), [60n, 30n, 10n])
    t.same(await ask(scopes('some fit', 100n), 60n, 50n, 30n, 20n, 10n), [60n, few, 30n, few, 10n])
    t.same(await ask(scopes('none fits', 9n), 60n, 50n), [few, few])
    const unlike = [scopes('one', 1000n), scopes('two', 100n)] as const
    const [one, two] = await Promise.all([ask(unlike[0], 900n, 100n), ask(unlike[1], 90n, 20n, 10n)])
    t.same(
      [one, two],
      [
        [900n, few],
        [90n, few, 10n]
      ],
      'those of others in between change nothing'
    )
    const alone = [scope('tenant', 'without a budget')]
    t.same(
      await ask(alone, 2n ** 61n, 2n ** 61n, 2n ** 61n, 2n ** 80n, 0n),
      [2n ** 61n, 2n ** 61n, 'invalid_request', 'invalid_request', 0n],
      'a sum that no balance can have'
    )
    const twice = { requestId: 'twice' }
    const made = await Promise.allSettled([
      hold(ledger, alone, 0n, twice),
      hold(ledger, unlike[1], 0n, { requestId: 'b' })
    ])
    t.same(
      made.map(({ status }) => status),
      ['fulfilled', 'fulfilled']
    )
    const { ledger: other } = await moneyNode(t, url, 'two', { folder: logFolder(t) })
    const again = await Promise.allSettled([
      hold(other, alone, 0n, twice),
      hold(other, alone, 0n),
      hold(other, alone, 0n)
    ])
    t.match(again[0], { status: 'rejected', reason: /twice has a reservation already/ })
    t.same(
      again.slice(1).map(({ status }) => status),
      ['fulfilled', 'fulfilled'],
      'the name of one is taken'
    )
    t.same(await brokenIn(url), [])
  }
)
