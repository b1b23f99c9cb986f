// A day to narrow a list to.
import { useEffect, useState } from 'react'
import { isDay } from '../filters.ts'
import { TextField } from './field.tsx'

interface DayFieldProps {
  readonly label: string
  readonly day: string
  readonly choose: (day: string) => void
  readonly min?: string | undefined
  readonly max?: string | undefined
  readonly mistake?: string | undefined
}
/** A day that is typed is first one of the year 2, then of 20: what is typed stays there, and is looked for once it can be meant. */
export function DayField({ day, choose, ...rest }: DayFieldProps) {
  const [typed, setTyped] = useState(day)
  useEffect(() => setTyped(day), [day])
  return (
    <TextField
      {...rest}
      type="date"
      value={typed}
      onChange={({ target }) => {
        setTyped(target.value)
        if (target.value === '' || isDay(target.value)) choose(target.value)
      }}
    />
  )
}
