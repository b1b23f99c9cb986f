// The management endpoints at their work, over a real database: one office for a file of tests, and for each group a shop of its own
// (`begin`): a workspace with its owner and a key. What each endpoint promises about who may ask is in isolation.test.ts.
import { expect } from 'vitest'
import { scopes } from '../../domain/scopes.ts'
import type { Sender } from '../../store/store.test-kit.ts'
import { officeWorld, type BrowserOf, type Login } from '../office.test-kit.ts'

export let shop: Sender
export let owner: BrowserOf & { readonly login: Login }
/** It may do everything. */
export let key: string

export const office = await officeWorld()

export async function begin(): Promise<void> {
  shop = await office.sender()
  owner = await office.signedIn('owner', shop.workspaceId)
  key = await office.key(shop.workspaceId, ...scopes)
}

export async function send(recipient: string, more: object = {}): Promise<string> {
  const body = { mailboxId: shop.mailboxId, recipient, subject: 'Hello', bodyText: 'Good morning', ...more }
  const answer = await office.withKey(key, 'POST', '/send', body)
  expect(answer.statusCode).toBe(202)
  return answer.json<{ id: string }>().id
}

export interface Listed {
  readonly items: { readonly id: string; readonly [name: string]: unknown }[]
  readonly next?: string
  readonly lookedBackTo?: string
}

export async function list(path: string): Promise<Listed> {
  const answer = await owner.ask('GET', path)
  expect(answer.statusCode).toBe(200)
  return answer.json<Listed>()
}

/** The actions of the audit log, oldest first. */
export async function audit(): Promise<string[]> {
  const { items } = await list('/audit?limit=200')
  return items.map((item) => `${item['action'] as string} ${item['actor'] as string}`).toReversed()
}
