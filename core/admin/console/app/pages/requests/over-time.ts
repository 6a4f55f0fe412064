// How many requests the filters select over time: bars whose range can be marked, and the sums beside the list.
import { useRef, useState } from 'preact/hooks'
import { get } from '../../api.ts'
import { h, html } from '../../html.ts'
import type { VNode } from '../../html.ts'
import { useLoad } from '../../load.ts'
import { counted, duration, percent } from '../../parts/number.ts'
import { Problem } from '../../parts/states.ts'
import { shownTime } from '../../parts/time.ts'
import { setQuery } from '../../router.ts'

interface Part {
  readonly at: string
  readonly requests: number
  readonly refused: number
  readonly failed: number
}

/** The counts as the API gives them. */
interface Totals {
  readonly data: readonly Part[]
  readonly part_ms: number
  readonly requests: number
  readonly refused: number
  readonly failed: number
  readonly counted_from: string | null
}

/** The picture. It is asked for after the rows, which need not wait for it. */
export function OverTime({ filters, ready }: { filters: Record<string, string>; ready: boolean }): VNode {
  const asked = JSON.stringify(filters)
  const totals = useLoad<Totals | undefined>(
    (signal) =>
      ready ? get<Totals>('/admin/v1/requests/totals', { ...filters, parts: 80 }, signal) : Promise.resolve(undefined),
    [asked, ready],
    { keep: true }
  )
  if (totals.error) return h(Problem, { error: totals.error })
  const { data } = totals
  if (!data) return html`<div class="over-time"><p class="quiet">Counting…</p></div>`
  const { requests, refused, failed, counted_from } = data
  const share = requests === 0 ? '' : ` (${percent((refused + failed) / requests)})`
  return html`
    <div class="over-time">
      <p role="status">
        <b class="number">${counted(requests)}</b> ${requests === 1 ? 'request' : 'requests'},${' '}
        <b class="number">${counted(refused + failed)}</b> of them not served${share}: ${counted(refused)} refused
        (4xx), ${counted(failed)} failed
        (5xx)${counted_from === null ? '.' : `, counted from ${shownTime(new Date(counted_from))} on.`}
      </p>
      ${requests === 0 ? null : h(Bars, { totals: data })}
    </div>
  `
}

const height = 56

function Bars({ totals }: { totals: Totals }): VNode {
  const { data, part_ms } = totals
  const box = useRef<SVGSVGElement>(null)
  const [marked, setMarked] = useState<readonly [number, number]>()
  const highest = Math.max(1, ...data.map(({ requests }) => requests))
  const partAt = (event: PointerEvent): number => {
    const { left, width } = box.current!.getBoundingClientRect()
    return Math.max(0, Math.min(data.length - 1, Math.floor(((event.clientX - left) / width) * data.length)))
  }
  const begin = (event: PointerEvent): void => {
    box.current!.setPointerCapture(event.pointerId)
    setMarked([partAt(event), partAt(event)])
  }
  const move = (event: PointerEvent): void => {
    if (marked) setMarked([marked[0], partAt(event)])
  }
  const end = (): void => {
    if (!marked) return
    const [from, to] = [Math.min(...marked), Math.max(...marked)]
    setMarked(undefined)
    const until = Date.parse(data[to]!.at) + part_ms - 1
    setQuery({ since: data[from]!.at, until: new Date(until).toISOString() }, { replace: false })
  }
  const tall = (count: number): number => (count === 0 ? 0 : Math.max(1, (count / highest) * height))
  const [first, last] = [data[0], data.at(-1)]
  if (!first || !last) return html``
  const name = `Requests over time, ${duration(part_ms)} each bar: highest ${counted(highest)}. Mark a span to see it alone.`
  return html`
    <svg
      ref=${box}
      class="bars"
      role="img"
      aria-label=${name}
      viewBox=${`0 0 ${data.length} ${height}`}
      preserveAspectRatio="none"
      onPointerDown=${begin}
      onPointerMove=${move}
      onPointerUp=${end}
      onPointerCancel=${() => setMarked(undefined)}
    >
      ${data.map(({ requests, refused, failed }, place) => {
        const [all, bad, worst] = [tall(requests), tall(refused + failed), tall(failed)]
        const bar = (tallness: number, kind: string): VNode | null =>
          tallness > 0
            ? html`<rect class=${kind} x=${place + 0.08} width="0.84" y=${height - tallness} height=${tallness} />`
            : null
        return html`<g>${bar(all, 'all')}${bar(bad, 'refused')}${bar(worst, 'failed')}</g>`
      })}
      ${marked ? html`<rect class="marked" x=${Math.min(...marked)} width=${Math.abs(marked[1] - marked[0]) + 1} y="0" height=${height} />` : null}
    </svg>
    <p class="bars-ends quiet number">
      <span>${shownTime(new Date(first.at))}</span><span>${duration(part_ms)} a bar</span
      ><span>${shownTime(new Date(Date.parse(last.at) + part_ms))}</span>
    </p>
  `
}
