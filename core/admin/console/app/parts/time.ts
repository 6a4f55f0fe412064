// Times: local, and in UTC on hover and focus.
import { useEffect, useState } from 'preact/hooks'
import { h, html } from '../html.ts'
import type { VNode } from '../html.ts'
import { duration } from './number.ts'
import { Tip } from './tip.ts'

const clock = once({ hour: '2-digit', minute: '2-digit', second: '2-digit', hour12: false })
const day = once({ year: 'numeric', month: 'short', day: 'numeric' })

/** Makes a formatter at its first use: each takes the browser milliseconds, in which nothing is drawn. */
function once(options: Intl.DateTimeFormatOptions): (time: Date) => string {
  let made: Intl.DateTimeFormat | undefined
  return (time) => (made ??= new Intl.DateTimeFormat(undefined, options)).format(time)
}

/** A time as text: the clock alone for one of today. */
export function shownTime(time: Date): string {
  return time.toDateString() === new Date().toDateString() ? clock(time) : `${day(time)} ${clock(time)}`
}

/** A time of the API (RFC 3339), or Unix milliseconds. Null shows `absent`. */
export function Time({ at, absent = '–' }: { at: string | number | null | undefined; absent?: string }): VNode {
  if (at === null || at === undefined) return html`<span class="quiet">${absent}</span>`
  const time = new Date(at)
  if (Number.isNaN(time.getTime())) return html`<span>${String(at)}</span>`
  const utc = time.toISOString()
  return h(
    Tip,
    { tip: `${utc.replace('T', ' ').replace(/(\.000)?Z$/, '')} UTC` },
    html`<time datetime=${utc}>${shownTime(time)}</time>`
  )
}

/** How long ago something was, kept up to date: `12 s ago`. */
export function Ago({ at }: { at: string | number }): VNode {
  const [now, setNow] = useState(Date.now())
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), 5000)
    return () => clearInterval(timer)
  }, [])
  const past = Math.max(0, now - new Date(at).getTime())
  const utc = new Date(at).toISOString()
  return h(
    Tip,
    { tip: utc },
    html`<time datetime=${utc}>${past < 1000 ? 'now' : `${duration(past - (past % 1000))} ago`}</time>`
  )
}
