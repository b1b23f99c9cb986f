// Times as people say them, the exact one on hover, and a reading that keeps up with the clock.
import { useEffect, useState } from 'react'
import { serviceNow } from '../clock.ts'
import { said } from './span.ts'

// How dates are written is the reader's.
const exact = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'long' })
const clockParts = {
  hour: '2-digit',
  minute: '2-digit',
  second: '2-digit',
  fractionalSecondDigits: 3,
  hourCycle: 'h23',
} as const
const clock = new Intl.DateTimeFormat(undefined, clockParts)
const dayAndClock = new Intl.DateTimeFormat(undefined, { day: 'numeric', month: 'short', ...clockParts })
const dayInUtc = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeZone: 'UTC' })
export const exactly = (at: Date): string => exact.format(at)

const toTheMinute = new Intl.DateTimeFormat(undefined, { hour: '2-digit', minute: '2-digit' })
/** `14:35`, of something that is not before: never a minute early. */
export const notBefore = (at: number): string => toTheMinute.format(Math.ceil(at / 60_000) * 60_000)

/** Of a day that is counted in UTC: in another zone its beginning is on another day. */
export const utcDay = (at: Date): string => `${dayInUtc.format(at)} (UTC)`

/** `now`, once a second while it matters to somebody. */
export function useNow(everyMs: number): number {
  const [now, set] = useState(serviceNow)
  useEffect(() => {
    const timer = setInterval(() => set(serviceNow()), everyMs)
    return () => clearInterval(timer)
  }, [everyMs])
  return now
}

export function Time({ at }: { readonly at: string }) {
  const date = new Date(at)
  const now = useNow(Math.abs(serviceNow() - date.getTime()) < 120_000 ? 1_000 : 30_000)
  return (
    <time dateTime={at} title={exact.format(date)} className="whitespace-nowrap">
      {said(date.getTime() - now)}
    </time>
  )
}

/** Hours to milliseconds, for a story in which seconds count; with the day, where that is not today. */
export function ClockTime({ at }: { readonly at: string }) {
  const date = new Date(at)
  const isToday = date.toDateString() === new Date(serviceNow()).toDateString()
  return (
    <time dateTime={at} title={exact.format(date)} className="whitespace-nowrap tabular-nums">
      {(isToday ? clock : dayAndClock).format(date)}
    </time>
  )
}
