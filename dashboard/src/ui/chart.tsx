// Counts over time. The picture is for the eye; the table behind it says the same to everybody else.
import { useEffect, useMemo, useRef, useState } from 'react'
import uPlot from 'uplot'
import 'uplot/dist/uPlot.min.css'
import type { UsageSeries } from '../shapes.ts'

type Count = Exclude<keyof UsageSeries['points'][number], 'at' | 'latencyMs'>
const lines: readonly (readonly [name: Count, words: string, colour: string, dash?: number[]])[] = [
  ['accepted', 'Accepted', '--soft', [4, 3]],
  ['sent', 'Sent', '--accent'],
  ['delivered', 'Delivered', '--good'],
  ['softBounced', 'Soft bounces', '--warn'],
  ['hardBounced', 'Hard bounces', '--bad'],
  ['complained', 'Complaints', '--bad', [2, 2]],
  ['unknown', 'Unknown', '--unknown'],
]
const height = 240
const hours = new Intl.DateTimeFormat(undefined, { hour: '2-digit', minute: '2-digit' })
const days = new Intl.DateTimeFormat(undefined, { day: 'numeric', month: 'short' })

export function Chart({ series }: { readonly series: UsageSeries }) {
  const place = useRef<HTMLDivElement>(null)
  const theme = useTheme()
  const data = useMemo(
    (): uPlot.AlignedData => [
      series.points.map(({ at }) => Date.parse(at) / 1000),
      ...lines.map(([name]) => series.points.map((point) => point[name])),
    ],
    [series],
  )
  const latest = useRef(data)
  latest.current = data
  const plot = useRef<uPlot>(undefined)
  useEffect(() => {
    const element = place.current
    if (element === null) return
    const made = new uPlot(optionsFor(element), latest.current, element)
    plot.current = made
    const watch = new ResizeObserver(() => made.setSize({ width: element.clientWidth, height }))
    watch.observe(element)
    return () => {
      watch.disconnect()
      made.destroy()
    }
  }, [theme])
  useEffect(() => plot.current?.setData(data), [data])
  const told = series.points.filter((point) => lines.some(([name]) => point[name] > 0))
  return (
    <figure className="grid gap-3">
      <div ref={place} aria-hidden className="min-w-0" />
      <figcaption className="flex flex-wrap gap-x-4 gap-y-1 text-xs text-soft">
        {lines.map(([name, words, colour, dash]) => (
          <span key={name} className="inline-flex items-center gap-1.5">
            <span
              aria-hidden
              className={`w-3 border-t-2 ${dash === undefined ? '' : 'border-dashed'}`}
              style={{ borderColor: `var(${colour})` }}
            />
            {words} <span className="tabular-nums">{series.totals[name].toLocaleString()}</span>
          </span>
        ))}
      </figcaption>
      <details className="text-sm">
        <summary className="text-soft">As a table</summary>
        <div className="relative mt-2 max-h-64 overflow-auto" tabIndex={0} role="group" aria-label="Counts over time">
          <table className="w-full text-left text-xs">
            <thead>
              <tr>
                <th scope="col" className="pr-3 font-medium">
                  From
                </th>
                {lines.map(([name, words]) => (
                  <th key={name} scope="col" className="pr-3 text-right font-medium">
                    {words}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {told.map((point) => (
                <tr key={point.at}>
                  <td className="pr-3 whitespace-nowrap">{new Date(point.at).toLocaleString()}</td>
                  {lines.map(([name]) => (
                    <td key={name} className="pr-3 text-right">
                      {point[name]}
                    </td>
                  ))}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      </details>
    </figure>
  )
}

function optionsFor(element: HTMLElement): uPlot.Options {
  const colour = (name: string) => getComputedStyle(document.documentElement).getPropertyValue(name).trim()
  const axis = {
    stroke: colour('--soft'),
    font: '11px ui-sans-serif, system-ui, sans-serif',
    grid: { stroke: colour('--line'), width: 1 },
    ticks: { show: false },
  }
  return {
    width: element.clientWidth,
    height,
    legend: { show: false },
    cursor: { points: { size: 6 } },
    padding: [8, 8, 0, 0],
    scales: { y: { range: (_plot, _least, most) => [0, Math.max(4, most * 1.1)] } },
    axes: [
      {
        ...axis,
        values: (_plot, at, _axis, _space, stepSeconds) =>
          at.map((seconds) => (stepSeconds < 86_400 ? hours : days).format(seconds * 1000)),
      },
      { ...axis, size: 44, incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5, 1e6, 1e7] },
    ],
    series: [
      {},
      ...lines.map(([, label, name, dash]) => ({
        label,
        stroke: colour(name),
        width: 1.75,
        points: { show: false },
        ...(dash !== undefined && { dash }),
      })),
    ],
  }
}

/** Changes when light becomes dark: a canvas does not follow by itself. */
function useTheme(): number {
  const [count, set] = useState(0)
  useEffect(() => {
    const change = () => set((before) => before + 1)
    const system = matchMedia('(prefers-color-scheme: dark)')
    system.addEventListener('change', change)
    const chosen = new MutationObserver(change)
    chosen.observe(document.documentElement, { attributeFilter: ['data-theme'] })
    return () => {
      system.removeEventListener('change', change)
      chosen.disconnect()
    }
  }, [])
  return count
}
