// Runs in the page before it is drawn, as a script and not as a module: puts the colours on that somebody chose by
// hand, and asks the API for what the page shows first, so that the answers are there when its modules are.
{
  let chosen: string | null = null
  try {
    chosen = localStorage.getItem('sluice.scheme')
  } catch {
    // Without storage the browser's preference holds.
  }
  if (chosen === 'light' || chosen === 'dark') document.documentElement.style.colorScheme = chosen

  // After another version of the gateway has taken the place of the one that sent this page, its script is there no
  // more: the page is loaded anew, once, and says so when that does not help.
  const missing = (event: Event): void => {
    if (!(event.target instanceof HTMLScriptElement)) return
    try {
      const before = Number(sessionStorage.getItem('sluice.anew'))
      sessionStorage.setItem('sluice.anew', String(Date.now()))
      if (Date.now() - before > 10_000) return location.reload()
    } catch {
      // Without storage nothing would tell that it was loaded anew already.
    }
    document.querySelector('#main p')!.textContent = 'The console could not be loaded. Load the page again.'
  }
  addEventListener('error', missing, true)

  const session = '/admin/v1/session'
  const early = new Map<string, Promise<Response>>()
  Object.assign(globalThis, { sluiceEarly: early })
  const ask = async (path: string): Promise<Response> => {
    const reply = fetch(path, {
      headers: { accept: 'application/json' },
      redirect: 'error',
      signal: AbortSignal.timeout(30_000)
    })
    early.set(path, reply)
    return (await reply).clone()
  }
  const { asks, whole } = (document.currentScript as HTMLScriptElement).dataset
  const begin = async (): Promise<void> => {
    const reply = await ask(session)
    // What an address with a query selects, its page alone knows.
    if (!reply.ok || asks === undefined || location.search !== '') return
    const { tenant } = (await reply.json()) as { tenant: string | null }
    // Modules that have taken the session over already ask by themselves.
    if (!early.has(session)) return
    if (tenant === null) await ask(asks)
    else if (whole === undefined) await ask(`${asks}?${new URLSearchParams({ tenant }).toString()}`)
  }
  // Whoever takes an answer over is told of its failure, and what nobody took is old by then.
  begin().catch(() => {})
  setTimeout(() => early.clear(), 10_000)
}
