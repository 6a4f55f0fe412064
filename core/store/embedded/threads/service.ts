// Runs services in a thread of the store: one after the other, each with a state of its own.
import { parentPort } from 'node:worker_threads'
import type { Order, ThreadMessage } from './thread.ts'

/** The work of a thread for one store. */
export interface Service<Request> {
  ask(request: Request): void
  /** Releases everything. Nothing is asked after it, and the service says nothing more. */
  end(): void
}

/** Runs the services that the main thread orders. `begin` makes a service, which sends its messages with `say`. */
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
  report({ loaded: true })
}
