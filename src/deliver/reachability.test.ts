// In which order addresses are tried, by what was heard of them lately.
import { expect, test } from 'vitest'
import { limits } from '../config.ts'
import { makeReachability } from './reachability.ts'

function reachAt() {
  const clock = { now: 0 }
  const reach = makeReachability(() => clock.now)
  const at = (...addresses: string[]) => addresses.map((address) => ({ address }))
  const order = (...addresses: string[]) => reach.inOrder(at(...addresses)).map(({ address }) => address)
  return { clock, reach, order }
}

test('an address that was out of reach is tried last for a while, and so is its family when several were', () => {
  const { clock, reach, order } = reachAt()
  reach.note('8.8.8.8', false)
  expect(order('8.8.8.8', '8.8.4.4', '2606:4700::1')).toEqual(['8.8.4.4', '2606:4700::1', '8.8.8.8'])
  clock.now = limits.unreachableMs + 1
  expect(order('8.8.8.8', '8.8.4.4')).toEqual(['8.8.8.8', '8.8.4.4'])
  for (const address of ['2606:4700::1', '2606:4700::2', '2606:4700::3']) reach.note(address, false)
  expect(order('2606:4700::9', '8.8.4.4')).toEqual(['8.8.4.4', '2606:4700::9'])
  reach.note('2606:4700::4', true)
  expect(order('2606:4700::9', '8.8.4.4')).toEqual(['2606:4700::9', '8.8.4.4'])
})

test('an attempt tries some of many addresses: those that were in reach first, and of both families', () => {
  const reach = makeReachability(() => 0)
  const four = Array.from({ length: 12 }, (_, n) => ({ address: `8.8.8.${n}` }))
  const targets = [...four, { address: '2606:4700::1' }]
  const addresses = () => reach.inOrder(targets).map(({ address }) => address)
  expect(addresses()).toHaveLength(limits.addressesPerAttemptMax)
  expect(addresses().at(-1)).toBe('2606:4700::1')
  for (const { address } of four.slice(0, 2)) reach.note(address, false)
  expect(addresses().slice(0, -1)).toEqual(four.slice(2, 9).map(({ address }) => address))
  reach.note(four[2]?.address ?? '', false)
  expect(addresses()[0]).toBe('2606:4700::1')
})

test('an address that answers again is in reach at once, and so is one whose time is over', () => {
  const { clock, reach, order } = reachAt()
  reach.note('8.8.8.8', false)
  reach.note('8.8.8.8', true)
  expect(order('8.8.8.8', '8.8.4.4')).toEqual(['8.8.8.8', '8.8.4.4'])
  reach.note('8.8.8.8', false)
  clock.now = limits.unreachableMs
  expect(order('8.8.8.8', '8.8.4.4')).toEqual(['8.8.8.8', '8.8.4.4'])
})

test('one that takes the connection and says nothing is tried last, but its family is in reach', () => {
  const { reach, order } = reachAt()
  const silent = ['2606:4700::1', '2606:4700::2', '2606:4700::3']
  for (const address of silent) reach.note(address, 'silent')
  expect(order('2606:4700::1', '8.8.4.4')).toEqual(['8.8.4.4', '2606:4700::1'])
  expect(order('2606:4700::9', '8.8.4.4')).toEqual(['2606:4700::9', '8.8.4.4'])
  for (const address of ['2606:4700::4', '2606:4700::5', '2606:4700::6']) reach.note(address, false)
  reach.note('2606:4700::1', 'silent')
  for (const address of ['2606:4700::7', '2606:4700::8']) reach.note(address, false)
  expect(order('2606:4700::9', '8.8.4.4')).toEqual(['2606:4700::9', '8.8.4.4'])
})

test('a family is out of reach by several addresses in a row: not by one many times, nor with another in reach between, and after its time by several anew', () => {
  const { clock, reach, order } = reachAt()
  const isBehind = () => order('2606:4700::9', '8.8.4.4')[0] === '8.8.4.4'
  const fail = (...last: readonly number[]) => last.forEach((n) => reach.note(`2606:4700::${n}`, false))
  fail(1, 1, 1, 2)
  reach.note('2606:4700::8', true)
  fail(3, 4)
  expect(isBehind()).toBe(false)
  fail(5)
  expect(isBehind()).toBe(true)
  clock.now = limits.unreachableMs
  fail(6)
  expect(isBehind()).toBe(false)
})
