import { expect, test } from 'vitest'
import { given } from './given.ts'

interface Row {
  readonly id: string
  readonly name?: string
  readonly count?: number
  readonly shown?: boolean
}

test('what is null or undefined is left out, what is empty stays, and the order is the one that was written', () => {
  expect(Object.entries(given<Row>({ shown: false, id: 'a', name: null, count: undefined }))).toEqual([
    ['shown', false],
    ['id', 'a'],
  ])
  expect(given<Row>({ id: 'a', name: '', count: 0 })).toEqual({ id: 'a', name: '', count: 0 })
})

test('a member that must be there may not be null, and one that there is not may not be named', () => {
  // @ts-expect-error -- must be there
  given<Row>({ id: null })
  // @ts-expect-error -- is none
  given<Row>({ id: 'a', nmae: 'b' })
  // @ts-expect-error -- null means something, and would be lost
  given<{ readonly limit: number | null }>({ limit: null })
})
