// Counts over time. The picture is for the eye; each point of it says its exact numbers to the mouse, the finger and the arrow keys, and the table
// behind it says them all to everybody.
import { ChartNoAxesCombined } from 'lucide-react'
import { useEffect, useMemo, useRef, useState, type KeyboardEvent } from 'react'
import './language.ts'
import uPlot from 'uplot'
import 'uplot/dist/uPlot.min.css'
import type { UsageSeries } from '../shapes.ts'
import { Empty } from './states.tsx'
import { exactly, utcDay } from './time.tsx'

type Count = Exclude<keyof UsageSeries['points'][number], 'at' | 'latencyMs'>
const lines: readonly (readonly [name: Count, words: string, colour: string, dash?: number[]])[] = [
  ['accepted', 'Accepted', '--soft', [4, 3]],
  ['sent', 'Sent', '--accent'],
  ['delivered', 'Delivered', '--good'],
  ['softBounced', 'Soft bounces', '--warn'],
  ['hardBounced', 'Hard bounces', '--bad'],
  ['failed', 'Failed', '--bad', [7, 2]],
  ['complained', 'Complaints', '--bad', [2, 2]],
  ['unknown', 'Unknown', '--unknown'],
]
const height = 240
const hours = new Intl.DateTimeFormat(undefined, { hour: '2-digit', minute: '2-digit' })
const daysWords = { day: 'numeric', month: 'short' } as const
const days = new Intl.DateTimeFormat(undefined, daysWords)
const daysInUtc = new Intl.DateTimeFormat(undefined, { ...daysWords, timeZone: 'UTC' })
const daySeconds = 86_400

interface Shown {
  readonly series: UsageSeries
}

/** Lines that all lie on the axis say nothing. */
export function Chart({ series }: Shown) {
  if (lines.some(([name]) => series.totals[name] > 0)) return <Lines series={series} />
  return (
    <Empty
      icon={ChartNoAxesCombined}
      title={`Nothing happened in the last ${series.step === 'day' ? '30 days' : '24 hours'}.`}
    />
  )
}

function Lines({ series }: Shown) {
  const { step: pointStep } = series
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
  const [hovered, setHovered] = useState<number>()
  /** By a key: it stays while data come and go, until another key or the mouse. */
  const [chosen, choose] = useState<number>()
  useEffect(() => {
    const element = place.current
    if (element === null) return
    const made = new uPlot(optionsFor(element, pointStep, setHovered), latest.current, element)
    plot.current = made
    const watch = new ResizeObserver(() => made.setSize({ width: element.clientWidth, height }))
    watch.observe(element)
    return () => {
      watch.disconnect()
      made.destroy()
    }
  }, [theme, pointStep])
  useEffect(() => plot.current?.setData(data), [data])
  useEffect(() => {
    const { current } = plot
    const seconds = chosen === undefined ? undefined : data[0]?.[chosen]
    if (current === undefined || seconds === undefined) return
    current.setCursor({ left: current.valToPos(seconds, 'x'), top: height / 3 })
    return () => plot.current?.setCursor({ left: -10, top: -10 })
  }, [chosen, data, theme, pointStep])
  const last = series.points.length - 1
  const at = chosen ?? hovered
  const point = at === undefined ? undefined : series.points[at]
  const step = (event: KeyboardEvent) => {
    const to = steps[event.key]?.(at, last)
    if (to === undefined) return
    event.preventDefault()
    setHovered(undefined)
    choose(to === 'away' ? undefined : Math.min(Math.max(to, 0), last))
  }
  const rows = series.points.filter((each) => told(each).length > 0)
  return (
    // Its colours tell the lines apart, so they stay where the system has others.
    <figure className="forced-color-adjust-none grid gap-3">
      <div
        role="slider"
        tabIndex={0}
        aria-label="A point of the chart"
        aria-valuemin={0}
        aria-valuemax={Math.max(last, 0)}
        aria-valuenow={at ?? last}
        aria-valuetext={point === undefined ? 'None; go with the arrow keys' : inWords(point, pointStep)}
        className="relative min-w-0 rounded"
        onKeyDown={step}
        onBlur={() => choose(undefined)}
        onMouseMove={() => choose(undefined)}
      >
        <div ref={place} aria-hidden className="min-w-0" />
        {point !== undefined && at !== undefined && <Exact point={point} step={pointStep} isLeft={at * 2 > last} />}
      </div>
      <figcaption className="flex flex-wrap gap-x-4 gap-y-1 text-xs text-soft">
        {lines.map(([name, words, colour, dash]) => (
          <span key={name} className="inline-flex items-center gap-1.5">
            <Mark colour={colour} dash={dash} />
            {words} <span className="tabular-nums">{series.totals[name].toLocaleString()}</span>
          </span>
        ))}
        {pointStep === 'day' && <span>Days begin and end in UTC.</span>}
      </figcaption>
      <details className="text-sm">
        <summary className="text-soft">As a table</summary>
        <div className="relative mt-2 max-h-64 overflow-auto" tabIndex={0} role="group" aria-label="Counts over time">
          <table className="w-full text-left text-xs">
            <thead>
              <tr>
                <th scope="col" className="pr-3 font-medium">
                  {pointStep === 'day' ? 'Day' : 'From'}
                </th>
                {lines.map(([name, words]) => (
                  <th key={name} scope="col" className="pr-3 text-right font-medium">
                    {words}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {rows.map((each) => (
                <tr key={each.at}>
                  <td className="pr-3 whitespace-nowrap">{covered(each, pointStep)}</td>
                  {lines.map(([name]) => (
                    <td key={name} className="pr-3 text-right">
                      {each[name]}
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

/** A piece of the line as it is drawn: three of them are red, and only their dashes tell them apart. */
function Mark({ colour, dash }: { readonly colour: string; readonly dash: readonly number[] | undefined }) {
  return (
    <svg aria-hidden width="18" height="2" className="shrink-0">
      <line
        x2="18"
        y1="1"
        y2="1"
        strokeWidth="2"
        strokeDasharray={dash?.join(' ')}
        style={{ stroke: `var(${colour})` }}
      />
    </svg>
  )
}

type Point = UsageSeries['points'][number]
type Step = UsageSeries['step']

const covered = ({ at }: Point, step: Step) => (step === 'day' ? utcDay : exactly)(new Date(at))

/** Where a key leads from a point, or from none. */
const steps: Readonly<Record<string, (at: number | undefined, last: number) => number | 'away'>> = {
  ArrowLeft: (at, last) => (at ?? last + 1) - 1,
  ArrowRight: (at, last) => (at ?? last - 1) + 1,
  PageUp: (at, last) => (at ?? last + 1) - 6,
  PageDown: (at, last) => (at ?? last - 1) + 6,
  Home: () => 0,
  End: (_at, last) => last,
  Escape: () => 'away',
}

const told = (point: Point) => lines.filter(([name]) => point[name] > 0)

function inWords(point: Point, step: Step): string {
  const numbers = told(point).map(([name, words]) => `${words} ${point[name].toLocaleString()}`)
  return `${covered(point, step)}: ${numbers.length === 0 ? 'nothing' : numbers.join(', ')}`
}

/** On the half of the picture where the cursor is not. */
function Exact({ point, step, isLeft }: { readonly point: Point; readonly step: Step; readonly isLeft: boolean }) {
  return (
    <div
      aria-hidden
      className={`pointer-events-none absolute top-2 grid gap-1 rounded-lg border border-line bg-card px-2.5 py-2 text-xs tabular-nums shadow-md ${isLeft ? 'left-12' : 'right-2'}`}
    >
      <p className="font-medium">{covered(point, step)}</p>
      {told(point).length === 0 && <p className="text-soft">Nothing</p>}
      {told(point).map(([name, words, colour, dash]) => (
        <p key={name} className="flex items-center gap-1.5">
          <Mark colour={colour} dash={dash} />
          <span className="mr-4 text-soft">{words}</span>
          <span className="ml-auto">{point[name].toLocaleString()}</span>
        </p>
      ))}
    </div>
  )
}

function optionsFor(element: HTMLElement, step: Step, show: (at: number | undefined) => void): uPlot.Options {
  /** As the browser resolves it: a canvas knows neither variables nor `light-dark()`. */
  const colour = (name: string) => {
    element.style.color = `var(${name})`
    const { color } = getComputedStyle(element)
    element.style.color = ''
    return color
  }
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
    cursor: { points: { size: 6 }, drag: { x: false, y: false } },
    hooks: { setCursor: [({ cursor }) => show((cursor.left ?? -1) < 0 ? undefined : (cursor.idx ?? undefined))] },
    // The last hour's label (`09:00 AM`) reaches half its width beyond the last point.
    padding: [8, 32, 0, 0],
    scales: { y: { range: (_plot, _least, most) => [0, Math.max(4, most * 1.1)] } },
    axes: [
      { ...axis, ...(step === 'day' ? axisOfDays : axisOfHours) },
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

const axisOfHours: uPlot.Axis = {
  values: (_plot, at, _axis, _space, stepSeconds) =>
    at.map((seconds) => (stepSeconds < daySeconds ? hours : days).format(seconds * 1000)),
}
/** Its marks stand on midnights of UTC, where the points are, and not on those of the reader. */
const axisOfDays: uPlot.Axis = {
  incrs: [1, 2, 5, 10, 20, 50, 100].map((many) => many * daySeconds),
  splits: (_plot, _axis, least, most, stepSeconds) => {
    const first = Math.ceil(least / daySeconds) * daySeconds
    return Array.from({ length: Math.floor((most - first) / stepSeconds) + 1 }, (_, n) => first + n * stepSeconds)
  },
  values: (_plot, at) => at.map((seconds) => daysInUtc.format(seconds * 1000)),
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
