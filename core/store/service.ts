// What runs in a thread of the store: one service after the other, each with all of its own state.
import { parentPort } from 'node:worker_threads'
import type { Order, ThreadMessage } from './thread.ts'

/** The work for one store. */
export interface Service<Request> {
  ask(request: Request): void
  /** Lets go of everything; nothing is said or asked after it. */
  end(): void
}

/** Serves whoever the thread belongs to; `begin` makes the service, which says what it has to say by `say`. */
export function serve<Data, Request, Message>(
  begin: (data: Data, say: (message: Message) => void) => Service<Request>
): void {
  const port = parentPort!
  const report = (report: ThreadMessage): void => port.postMessage(report)
  let service: Service<Request> | undefined
  port.on('message', (order: Order) => {
    if ('begin' in order) service = begin(order.begin as Data, (said) => report({ said }))
    else if ('ask' in order) service?.ask(order.ask as Request)
    else {
      service?.end()
      service = undefined
      report({ ended: true })
    }
  })
}
