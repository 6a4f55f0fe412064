// The worker that all tabs of a browser share: it has one live stream for each address that they watch, since a browser
// keeps no more than six connections to a listener.
import { LiveSource } from './live-source.ts'

/** What a tab says: that it watches an address, still does, or does no more. */
export interface LiveWish {
  readonly url: string
  readonly wish: 'watch' | 'stay' | 'leave'
}

/** A tab that says nothing for so many milliseconds is gone: nobody tells when one is closed. */
const goneMs = 45_000

interface Watched {
  readonly source: LiveSource
  /** When each tab was last heard of. */
  readonly tabs: Map<MessagePort, number>
}

const all = new Map<string, Watched>()

function leave(url: string, port: MessagePort): void {
  const watched = all.get(url)
  watched?.tabs.delete(port)
  if (!watched || watched.tabs.size > 0) return
  watched.source.close()
  all.delete(url)
}

function watch(url: string, port: MessagePort): void {
  let watched = all.get(url)
  if (watched) for (const message of watched.source.past) port.postMessage(message)
  else {
    const tabs = new Map<MessagePort, number>()
    const source = new LiveSource(url, (message) => {
      for (const tab of tabs.keys()) tab.postMessage(message)
    })
    all.set(url, (watched = { source, tabs }))
  }
  watched.tabs.set(port, Date.now())
}

const scope = globalThis as unknown as { onconnect: (event: MessageEvent) => void }
scope.onconnect = ({ ports: [port] }) => {
  port!.onmessage = ({ data: { url, wish } }: MessageEvent<LiveWish>) => {
    if (wish === 'leave') leave(url, port!)
    else if (wish === 'watch' || !all.get(url)?.tabs.has(port!)) watch(url, port!)
    else all.get(url)!.tabs.set(port!, Date.now())
  }
}

setInterval(() => {
  const before = Date.now() - goneMs
  for (const [url, { tabs }] of all) for (const [port, heard] of tabs) if (heard < before) leave(url, port)
}, 15_000)
