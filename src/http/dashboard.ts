// The dashboard: one page and its hashed files, built from dashboard/ (src/dashboard-build.ts). Its Content-Security-Policy lets it run only
// what comes from here and ask only this service, so that whatever a mail, a reply or a webhook receiver says stays text.
import { readdirSync, readFileSync } from 'node:fs'
import { extname, join } from 'node:path'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { answerAsset, immutable, makeAsset, revalidate } from './asset.ts'
import type { Asset } from './asset.ts'
import { answerNotFound } from './face.ts'
import type { Face } from './face.ts'

const types: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
}

/** Styles that scripts set on elements are not inline styles for this policy; style elements and attributes in markup are. */
const policy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "font-src 'self'",
  "connect-src 'self'",
  // Mail is looked at in a frame, which has a policy of its own (http/management/mail.ts).
  "frame-src 'self'",
  "base-uri 'none'",
  "form-action 'self'",
  "frame-ancestors 'none'",
  "require-trusted-types-for 'script'",
  "trusted-types 'none'",
].join('; ')

const absent = `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Posthorn</title></head>
<body><h1>The dashboard could not be built, or its files are gone</h1>
<p>Everything else works. The log says why; start again to try once more. The API reference is at <a href="/docs">/docs</a>.</p>
</body></html>
`

export function dashboardRoutes(app: FastifyInstance, face: Face): void {
  let files: ReadonlyMap<string, Asset> | undefined
  /** What cannot be read is looked for again by the next who asks, and is no word about the database. */
  const found = () => {
    const folder = face.dashboard()
    try {
      return folder === undefined ? undefined : read(folder)
    } catch (error) {
      face.log.fault('dashboard', error)
      return undefined
    }
  }
  const page = async (request: FastifyRequest, reply: FastifyReply) => {
    files ??= found()
    const path = request.url.split('?', 1)[0] ?? '/'
    const index = files?.get('/index.html')
    const file = files?.get(path)
    if (file !== undefined && file !== index) return answerAsset(request, reply, file)
    // Places inside the page are the page's business; what is no place for a person is not found.
    if (/^\/(?:api|assets|docs)(?:\/|$)/.test(path) || !wantsPage(request)) return answerNotFound(face, request, reply)
    void reply.header('content-security-policy', policy)
    void reply.header('cross-origin-opener-policy', 'same-origin')
    if (index !== undefined) return answerAsset(request, reply, index)
    return reply.code(503).header('content-type', types['.html']).send(absent)
  }
  app.get('/', page)
  app.get('/*', page)
}

/** A browser that goes to an address says so; a program that asks for anything is told that there is nothing. */
function wantsPage(request: FastifyRequest): boolean {
  return request.url === '/' || request.headers.accept?.includes('text/html') === true
}

function read(folder: string): ReadonlyMap<string, Asset> {
  const found = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile())
  return new Map(
    found.flatMap((entry): [string, Asset][] => {
      const file = join(entry.parentPath, entry.name)
      const type = types[extname(entry.name)]
      if (type === undefined) return []
      const path = file.slice(folder.length).replaceAll('\\', '/')
      return [[path, makeAsset(type, readFileSync(file), path.startsWith('/assets/') ? immutable : revalidate)]]
    }),
  )
}
