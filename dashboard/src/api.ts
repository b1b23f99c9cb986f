// The HTTP API, as the dashboard asks it: the person's session is a cookie, the workspace a header, and a no is an error with the service's own words.
import { useMutation, useQuery, useQueryClient, type UseQueryOptions } from '@tanstack/react-query'
import { useCallback, useEffect, useRef, useState } from 'react'
import { hearClock } from './clock.ts'

export class ApiError extends Error {
  override readonly name = 'ApiError'
  readonly status: number
  readonly code: string | undefined
  /** The member that is wrong. */
  readonly field: string | undefined
  readonly requestId: string | undefined
  constructor(status: number, said: { error?: string; code?: string; field?: string }, requestId?: string) {
    super(said.error ?? `The service answered ${status}.`)
    this.status = status
    this.code = said.code
    this.field = said.field
    this.requestId = requestId
  }
}

/** Nobody answered: the service is being restarted, or the line is down. */
export class UnreachableError extends Error {
  override readonly name = 'UnreachableError'
}

/** Nobody answered, or a proxy did, some of them by numbers of their own (520 to 530). */
export const isSilence = (error: Error): boolean =>
  error instanceof UnreachableError || (error instanceof ApiError && error.status > 500)
export const isSignedOut = (error: unknown): boolean => error instanceof ApiError && error.status === 401

let workspaceId: string | undefined
/** The workspace that is looked at; every request on its behalf names it. Whether it is another one than before. */
export function lookAt(id: string | undefined): boolean {
  const isAnother = id !== workspaceId
  workspaceId = id
  return isAnother
}

type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'

export async function ask<Answer>(method: Method, path: string, body?: unknown, signal?: AbortSignal): Promise<Answer> {
  return readable(await answerTo(method, path, body, signal)) as Answer
}

function readable(text: string): unknown {
  const answer = text === '' ? undefined : parsed(text)
  // A page of a proxy, with "200".
  if (text !== '' && answer === undefined) throw new UnreachableError(unreadable)
  return answer
}

/** What is no JSON, as it comes. */
export const read = (path: string): Promise<string> => answerTo('GET', path)

async function answerTo(
  method: Method,
  path: string,
  body?: unknown,
  signal?: AbortSignal,
  workspace = workspaceId,
): Promise<string> {
  const response = await unbroken(
    fetch(path, {
      method,
      credentials: 'same-origin',
      headers: {
        accept: 'application/json',
        // No other site can make a browser say this (attack T8).
        ...(method !== 'GET' && { 'x-posthorn-csrf': '1' }),
        ...(body !== undefined && { 'content-type': 'application/json' }),
        ...(workspace !== undefined && { 'x-posthorn-workspace': workspace }),
      },
      ...(body !== undefined && { body: JSON.stringify(body) }),
      ...(signal !== undefined && { signal }),
    }),
  )
  hearClock(response.headers.get('date'))
  const text = await unbroken(response.text())
  if (response.ok) return text
  const said = text === '' ? {} : ((parsed(text) ?? { error: unreadable }) as { readonly error?: string })
  throw new ApiError(response.status, said, response.headers.get('x-request-id') ?? undefined)
}

/** The line may break in the middle of an answer, too. */
async function unbroken<Answer>(answer: Promise<Answer>): Promise<Answer> {
  try {
    return await answer
  } catch (cause) {
    if (cause instanceof DOMException && cause.name === 'AbortError') throw cause
    throw new UnreachableError('Posthorn cannot be reached at the moment.', { cause })
  }
}

const unreadable = 'The answer could not be read: is there something between this page and Posthorn?'
/** Undefined where it is no JSON. */
function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

export const get = <Answer>(path: string, signal?: AbortSignal): Promise<Answer> =>
  ask<Answer>('GET', path, undefined, signal)

/** Of another workspace than the one that is looked at. */
export const getIn = async <Answer>(workspace: string, path: string, signal: AbortSignal): Promise<Answer> =>
  readable(await answerTo('GET', path, undefined, signal, workspace)) as Answer

/** `/path?a=1` of what is set. */
export function withQuery(path: string, query: Readonly<Record<string, string | number | undefined>>): string {
  const entries = Object.entries(query).filter(([, value]) => value !== undefined && value !== '')
  const text = new URLSearchParams(entries.map(([name, value]) => [name, String(value)])).toString()
  return text === '' ? path : `${path}?${text}`
}

/** What stands there. The first word of the key is the one that changes name, for reading it again. */
export const useRead = <Answer>(
  queryKey: readonly unknown[],
  path: string,
  more: Omit<UseQueryOptions<Answer>, 'queryKey' | 'queryFn'> = {},
) => useQuery<Answer>({ queryKey, queryFn: ({ signal }) => get<Answer>(path, signal), ...more })

/**
 * A change, after which what it may have changed is read again. Its answer is there as soon as it has come: it may hold a secret that is shown this
 * once, and who waits on a bad line loses it with a reload. It is busy until that was read, so that nobody presses for what is done. `done` is for who still
 * stands there: whoever has gone back meanwhile, or to another workspace, is led nowhere.
 */
export function useChange<Given, Answer = unknown>(
  change: (given: Given) => Promise<Answer>,
  changes: readonly string[],
  done?: (answer: Answer) => void,
) {
  const client = useQueryClient()
  const [reading, setReading] = useState<Promise<unknown>>()
  const isThere = useRef(false)
  useEffect(() => {
    isThere.current = true
    return () => void (isThere.current = false)
  }, [])
  const readAgain = () => Promise.all(changes.map((key) => client.invalidateQueries({ queryKey: [key] })))
  const made = useMutation<Answer, Error, Given>({
    mutationFn: (given) => change(given).catch((cause: unknown) => Promise.reject(doubted(cause, changes))),
    onSuccess: (answer) => {
      if (isThere.current) done?.(answer)
      const all = readAgain()
      setReading(all)
      // Another change may have begun meanwhile.
      void all.finally(() => setReading((now) => (now === all ? undefined : now)))
    },
    onError: (error) => {
      if (isNews(error)) void readAgain()
    },
  })
  const { reset } = made
  const forget = useCallback(() => {
    reset()
    setReading(undefined)
  }, [reset])
  return { ...made, isPending: made.isPending || reading !== undefined, reset: forget }
}

/** Nobody can know whether it happened. Where nothing is kept that it would have changed, as at a sign-in, it is simply tried again. */
function doubted(cause: unknown, changes: readonly string[]): unknown {
  if (changes.length === 0 || !(cause instanceof Error) || !isSilence(cause)) return cause
  // A no of the service's own words is an answer.
  if (cause instanceof ApiError && cause.code !== undefined) return cause
  return new UnreachableError(`${cause.message} ${doubt}`, { cause })
}
const doubt = 'Whether this was done is not known: look before you do it again.'

/** What is shown may not be so: nobody answered, and it may have happened; or somebody else was there before. */
const isNews = (error: Error): boolean =>
  isSilence(error) || (error instanceof ApiError && [404, 409].includes(error.status))

/** When a dialog closes, what was said to its change is forgotten: the next time it is about another try, or another row. */
export function useForgetting(open: boolean, { reset }: { readonly reset: () => void }): void {
  useEffect(() => {
    if (!open) reset()
  }, [open, reset])
}
