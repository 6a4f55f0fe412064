// A day of live data in the overview, as fast as the page draws it: its memory stays flat. In short runs it is 40
// minutes; with `SLUICE_LONG` all of the day.
// Runs alone: it measures the memory of its browser.
import t from 'tap'
import { openPage } from '../kit/browser.ts'
import { gateway } from '../kit/gateway.ts'

const seconds = process.env['SLUICE_LONG'] === undefined ? 2400 : 86_400
/** The day is told in parts, after each of which the memory is read. */
const parts = 6

t.test('the overview needs no more memory after a day', async (t) => {
  const { adminUrl } = await gateway(t)
  const page = await openPage(t, `${adminUrl}/console/overview`)
  await page.getByRole('heading', { name: 'Overview' }).waitFor()
  const devtools = await page.context().newCDPSession(page)
  const readings: { heap: number; nodes: number }[] = []
  for (let part = 0; part < parts; part++) {
    await page.evaluate(
      async ([from, to]) => {
        const browser = globalThis as any
        const { ticks } = await import('/console/app/live.ts' as string)
        for (let second = from!; second < to!; second++) {
          const requests = 500 + Math.round(400 * Math.sin(second / 600))
          const tick = {
            at: new Date(1_790_000_000_000 + second * 1000).toISOString(),
            ms: 1000,
            requests,
            errors: second % 7,
            codes: { rate_limit_rpm: second % 7 },
            input_tokens: requests * 900,
            output_tokens: requests * 150,
            cost_nano: String(requests * 1_234_567),
            first_event_p50_ms: 200 + (second % 50),
            first_event_p95_ms: 900 + (second % 90)
          }
          ticks.value = [...ticks.value, tick].slice(-300)
          // The page draws each of them, and the chart about every tenth.
          await Promise.resolve()
          if (second % 10 === 0) await new Promise((resolve) => browser.requestAnimationFrame(resolve))
        }
      },
      [Math.round((seconds * part) / parts), Math.round((seconds * (part + 1)) / parts)]
    )
    await devtools.send('HeapProfiler.collectGarbage')
    const { usedSize } = await devtools.send('Runtime.getHeapUsage')
    const { nodes } = await devtools.send('Memory.getDOMCounters')
    readings.push({ heap: usedSize, nodes })
  }
  t.comment(readings.map(({ heap, nodes }) => `${(heap / 1e6).toFixed(2)} MB, ${nodes} nodes`).join('; '))
  // The first part is the way there: code is compiled, and the window of the chart filled.
  const [, second] = readings
  const last = readings.at(-1)!
  t.ok(last.heap < second!.heap * 1.15 + 500_000, `${second!.heap} bytes, and then ${last.heap}`)
  t.ok(last.nodes <= second!.nodes + 200, `${second!.nodes} nodes, and then ${last.nodes}`)
})
