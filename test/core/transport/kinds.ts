// The implementations of the transport, each of which has to pass the same tests.
import type { Test } from 'tap'
import type { Channel } from '../../../core/catalogue/catalogue.ts'
import { Http1Transport } from '../../../core/transport/http1/transport.ts'
import type { HttpTransport } from '../../../core/transport/transport.ts'
import { UndiciTransport } from '../../../core/transport/undici/transport.ts'

/** One of them, and what a channel has to say for it. */
export interface Kind {
  name: string
  channel: Partial<Channel>
  make(): HttpTransport
}

export const own: Kind = { name: 'own', channel: { transport: 'own' }, make: () => new Http1Transport() }
export const undici: Kind = { name: 'undici', channel: { transport: 'undici' }, make: () => new UndiciTransport() }
export const undici2: Kind = {
  name: 'undici, HTTP/2',
  channel: { transport: 'undici', http: 2 },
  make: () => new UndiciTransport()
}

/** A transport, closed when the test is over; no connection may be left then. */
export function open(t: Test, kind: Kind): HttpTransport {
  const transport = kind.make()
  t.teardown(async () => {
    await transport.close()
    if (transport.connections !== 0) throw new Error(`${transport.connections} connections are left`)
  })
  return transport
}

/** A test of each of these kinds. */
export function testEach(
  t: Test,
  kinds: readonly Kind[],
  sentence: string,
  run: (t: Test, kind: Kind) => Promise<void>
): void {
  for (const kind of kinds) t.test(`${sentence} (${kind.name})`, (t) => run(t, kind))
}
