// The only requests that feeds make: for the certificate that SNS signs with, and to confirm a subscription. HTTPS alone, to a host
// that the reader has checked, without redirects, bounded in bytes, time and number; certificates are kept for a day.
import { request } from 'node:https'
import { remembered } from '../base/remembered.ts'
import { limits } from '../config.ts'

export interface AwsFetch {
  /** Rejects when it cannot be had: the request that needed it is to come again. */
  certificate(url: string): Promise<string>
  confirm(url: string): Promise<void>
}

/** Where tests stand in for Amazon: another port, address and authority. */
export interface AwsFetchOptions {
  readonly port?: number
  readonly address?: string
  readonly ca?: string
  readonly now?: () => number
}

export function makeAwsFetch(options: AwsFetchOptions = {}): AwsFetch {
  let minuteEndsAt = 0
  let asked = 0
  const clock = options.now ?? (() => performance.now())
  const get = (url: string): Promise<string> => {
    const now = clock()
    if (now >= minuteEndsAt) {
      minuteEndsAt = now + 60_000
      asked = 0
    }
    if (++asked > limits.feedFetchesPerMinuteMax) return Promise.reject(new Error('too many requests to Amazon SNS'))
    return fetchText(url, options)
  }
  return {
    // What went wrong is not kept.
    certificate: remembered(get, { keepMs: () => limits.feedCertificateMs, most: limits.feedCertificatesMax }),
    confirm: async (url) => {
      await get(url)
    },
  }
}

function fetchText(url: string, { port, address, ca }: AwsFetchOptions): Promise<string> {
  return new Promise((resolve, reject) => {
    const { hostname, pathname, search } = new URL(url)
    const asking = request(
      {
        host: address ?? hostname,
        servername: hostname,
        headers: { host: hostname },
        port: port ?? 443,
        path: pathname + search,
        agent: false,
        signal: AbortSignal.timeout(limits.feedFetchMs),
        ...(ca === undefined ? {} : { ca }),
      },
      (response) => {
        if (response.statusCode !== 200) {
          asking.destroy()
          return reject(new Error(`Amazon SNS answered ${response.statusCode} at ${hostname}`))
        }
        const chunks: Buffer[] = []
        let size = 0
        response.on('data', (chunk: Buffer) => {
          size += chunk.length
          if (size > limits.feedFetchBytesMax) asking.destroy(new Error('Amazon SNS answered more than a certificate'))
          else chunks.push(chunk)
        })
        response.on('end', () => resolve(Buffer.concat(chunks).toString('utf8')))
        response.on('error', reject)
      },
    )
    asking.on('error', reject)
    asking.end()
  })
}
