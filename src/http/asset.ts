// Files that never change in the life of the process: compressed once, with a strong ETag (RFC 9110 8.8.3) and the caching that suits them.
import { createHash } from 'node:crypto'
import { promisify } from 'node:util'
import { gunzip, gzipSync } from 'node:zlib'
import type { FastifyReply, FastifyRequest } from 'fastify'

export interface Asset {
  readonly type: string
  /** Of the uncompressed bytes; a strong ETag stands for one encoding. */
  readonly hash: string
  readonly gzipped: Buffer
  readonly cache: string
}

/** For addresses that name their content. */
export const immutable = 'public, max-age=31536000, immutable'
export const revalidate = 'no-cache'

export function makeAsset(type: string, bytes: string | Buffer, cache: string): Asset {
  const hash = createHash('sha256').update(bytes).digest('base64url').slice(0, 22)
  return { type, hash, gzipped: gzipSync(bytes, { level: 9 }), cache }
}

const expand = promisify(gunzip)
const expanded = new WeakMap<Asset, Promise<Buffer>>()

/** One for all who take no gzip, made when the first of them asks: else each that is asked for and not read holds one of its own. */
function plainOf(asset: Asset): Promise<Buffer> {
  let plain = expanded.get(asset)
  if (plain === undefined) {
    expanded.set(asset, (plain = expand(asset.gzipped)))
    // Without memory for it once is not for ever.
    plain.catch(() => expanded.delete(asset))
  }
  return plain
}

export async function answerAsset(request: FastifyRequest, reply: FastifyReply, asset: Asset): Promise<FastifyReply> {
  const zipped = acceptsGzip(request.headers['accept-encoding'])
  const etag = `"${asset.hash}${zipped ? '-gzip' : ''}"`
  reply.headers({ 'content-type': asset.type, 'cache-control': asset.cache, etag, vary: 'Accept-Encoding' })
  if (isKnown(request.headers['if-none-match'], etag)) return reply.code(304).send()
  if (!zipped) return reply.send(await plainOf(asset))
  return reply.header('content-encoding', 'gzip').send(asset.gzipped)
}

/** RFC 9110 12.5.3: `*` stands for what is not named. */
function acceptsGzip(header: string | string[] | undefined): boolean {
  if (typeof header !== 'string') return false
  const entries = header.split(',').map((entry) => /^\s*(gzip|\*)\s*(?:;\s*q=([01](?:\.\d*)?)\s*)?$/i.exec(entry))
  const said =
    entries.find((entry) => entry?.[1]?.toLowerCase() === 'gzip') ?? entries.find((entry) => entry?.[1] === '*')
  return said != null && Number(said[2] ?? 1) > 0
}

/** RFC 9110 13.1.2: weak comparison. */
function isKnown(header: string | undefined, etag: string): boolean {
  return header?.split(',').some((entry) => entry.trim().replace(/^W\//, '') === etag) ?? false
}
