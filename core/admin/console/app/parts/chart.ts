// A chart over time: lines that differ by dash and colour, a legend of its own, and the figures as a table on demand.
import { useEffect, useRef, useState } from 'preact/hooks'
import type uPlot from 'uplot'
import { h, html } from '../html.ts'
import type { VNode } from '../html.ts'
import { isDark } from '../scheme.ts'
import { Table } from './table.ts'
import type { Column } from './table.ts'
import { shownTime } from './time.ts'

/** One line. */
export interface Series {
  readonly label: string
  /** One value for each time; null where there is none, which is drawn as a gap. */
  readonly values: readonly (number | null)[]
  /** A value with its unit. */
  show(value: number): string
  /** A token of the style: `--bad`. Default: one of the line colours. */
  readonly colour?: string
}

/** What a chart needs. Series with different units belong in different charts. */
export interface ChartProps {
  /** What came out, in a sentence: `Requests: 906/s now, highest 980/s at 10:42`. */
  name: string
  /** Unix seconds, ascending. At most some hundred points; the API gives them so. */
  times: readonly number[]
  series: readonly Series[]
  /** Whether each time is a day in UTC, as spend is added up by. */
  days?: boolean
  /** In pixels; default 160. */
  height?: number
  /** Called when the reader marks a span, in Unix seconds. There has to be a field for the same. */
  onRange?(from: number, to: number): void
}

const colours = ['--line-1', '--line-2', '--line-3', '--line-4', '--line-5', '--line-6']
const dashes: readonly number[][] = [[], [6, 3], [2, 2], [10, 3, 2, 3], [1, 3], [12, 4]]

/** The chart. */
export function Chart(props: ChartProps): VNode {
  const box = useRef<HTMLDivElement>(null)
  const plot = useRef<uPlot>(null)
  const [table, setTable] = useState(false)
  const dark = isDark.value
  const data = [props.times, ...props.series.map(({ values }) => values)] as uPlot.AlignedData
  const shape = JSON.stringify([dark, props.height, props.series.map(({ label, colour }) => [label, colour])])
  const latest = useRef(data)
  latest.current = data
  const onRange = useRef(props.onRange)
  onRange.current = props.onRange
  useEffect(() => {
    let ended = false
    let watch: ResizeObserver | undefined
    // The library is loaded with the first chart.
    const draw = (Plot: typeof uPlot): void => {
      const element = box.current
      if (ended || !element) return
      const made = new Plot(
        optionsOf(props, element, (from, to) => onRange.current?.(from, to)),
        latest.current,
        element
      )
      plot.current = made
      watch = new ResizeObserver(() => made.setSize({ width: element.clientWidth, height: props.height ?? 160 }))
      watch.observe(element)
    }
    // Where it is there no more, as after an upgrade, the figures tell the same.
    void import('uplot').then(
      ({ default: Plot }) => draw(Plot),
      () => setTable(true)
    )
    return () => {
      ended = true
      watch?.disconnect()
      plot.current?.destroy()
      plot.current = null
    }
  }, [shape])
  useEffect(() => plot.current?.setData(latest.current), [props.times, props.series])
  return html`
    <figure class="chart">
      <figcaption>
        ${props.series.map(
          ({ label, colour }, place) =>
            html`<span class="legend"
              ><svg width="22" height="8" aria-hidden="true">
                <line
                  x1="0"
                  y1="4"
                  x2="22"
                  y2="4"
                  stroke-width="2"
                  style=${{ stroke: `var(${colour ?? colours[place % colours.length]!})` }}
                  stroke-dasharray=${dashes[place % dashes.length]!.join(' ')}
                />
              </svg>
              ${label}</span
            >`
        )}
        <button type="button" class="plain small" aria-expanded=${table} onClick=${() => setTable(!table)}>
          Figures
        </button>
      </figcaption>
      <div
        class="plot"
        role="img"
        aria-label=${props.name}
        ref=${box}
        style=${{ minHeight: `${props.height ?? 160}px` }}
      ></div>
      ${table ? h(Figures, props) : null}
    </figure>
  `
}

/** The day in UTC that a time is nearest to: the axis has midnights of this place. */
function dayNear(seconds: number): string {
  return new Date(seconds * 1000 + 43_200_000).toISOString().slice(0, 10)
}

function Figures({ times, series, days }: ChartProps): VNode {
  const columns: Column<number>[] = [
    {
      id: 'time',
      title: 'Time',
      value: (row) => times[row]!,
      cell: (row) => (days ? dayNear(times[row]!) : shownTime(new Date(times[row]! * 1000)))
    },
    ...series.map(({ label, values, show }): Column<number> => ({
      id: label,
      title: label,
      align: 'end',
      value: (row) => values[row] ?? null,
      cell: (row) => (values[row] === null || values[row] === undefined ? '–' : show(values[row]))
    }))
  ]
  const rows = times.map((_, place) => place).reverse()
  return h(Table<number>, { name: 'figures', columns, rows, keyOf: String, filter: false, empty: 'No figures.' })
}

/** A token as the canvas needs it: a colour, and not the text of the style. */
function resolved(token: string, near: HTMLElement): string {
  const probe = document.createElement('span')
  probe.style.color = `var(${token})`
  near.append(probe)
  const { color } = getComputedStyle(probe)
  probe.remove()
  return color
}

/** The places of values that have gaps at both sides. */
function lonely(plot: uPlot, line: number): number[] {
  const values = plot.data[line] ?? []
  const gone = (place: number): boolean => values[place] === null || values[place] === undefined
  return Array.from(values.keys()).filter((place) => !gone(place) && gone(place - 1) && gone(place + 1))
}

function optionsOf(
  { series, days, height = 160, onRange }: ChartProps,
  element: HTMLElement,
  range: (from: number, to: number) => void
): uPlot.Options {
  const text = resolved('--quiet', element)
  const grid = { stroke: resolved('--line', element), width: 1 }
  const axis = { stroke: text, grid, ticks: grid, font: '11px system-ui, sans-serif' }
  const [one] = series
  return {
    width: element.clientWidth,
    height,
    legend: { show: false },
    cursor: { drag: { x: onRange !== undefined, y: false, setScale: false }, points: { size: 6 } },
    scales: { y: { range: (_plot, low, high) => [Math.min(0, low), high > 0 ? high * 1.05 : 1] } },
    axes: [
      {
        ...axis,
        space: 80,
        values: (_plot, splits) =>
          splits.map((split) => (days ? dayNear(split) : shownTime(new Date(split * 1000)).replace(/:00$/, '')))
      },
      { ...axis, size: 64, values: (_plot, splits) => splits.map((split) => one?.show(split) ?? String(split)) }
    ],
    series: [
      {},
      ...series.map(({ label, colour }, place) => ({
        label,
        stroke: resolved(colour ?? colours[place % colours.length]!, element),
        dash: [...dashes[place % dashes.length]!],
        width: 1.5,
        // A value without a neighbour makes no line.
        points: { show: true, size: 4, filter: lonely }
      }))
    ],
    hooks: {
      setSelect: [
        (plot) => {
          if (plot.select.width < 4) return
          range(plot.posToVal(plot.select.left, 'x'), plot.posToVal(plot.select.left + plot.select.width, 'x'))
          plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false)
        }
      ]
    }
  }
}
