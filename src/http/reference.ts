// The API reference: /api/v1/openapi.json for machines, /docs for people. The page works without a network: its one big
// script (Scalar) comes from this service, and its Content-Security-Policy lets it reach nothing else.
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { Worker } from 'node:worker_threads'
import type { FastifyInstance } from 'fastify'
import { openapiJson } from '../contract/openapi.ts'
import { answerAsset, immutable, makeAsset, revalidate } from './asset.ts'
import type { Asset } from './asset.ts'
import type { Face } from './face.ts'

const scalarVersion = (
  JSON.parse(
    readFileSync(
      createRequire(import.meta.url)
        .resolve('@scalar/fastify-api-reference')
        .replace(/dist.*$/, 'package.json'),
      'utf8',
    ),
  ) as { version: string }
).version
const scriptPath = `/docs/scalar-${scalarVersion}.js`

/**
 * How the page is set up. Everything that would ask somebody else's server is off: fonts, telemetry, the request proxy,
 * agents.
 */
const settings = {
  url: 'api/v1/openapi.json',
  proxyUrl: '',
  telemetry: false,
  withDefaultFonts: false,
  hideClientButton: true,
  showDeveloperTools: 'never',
  mcp: { disabled: true },
  agent: { disabled: true },
  documentDownloadType: 'json',
  orderSchemaPropertiesBy: 'preserve',
  defaultHttpClient: { targetKey: 'shell', clientKey: 'curl' },
  metaData: { title: 'Posthorn API' },
} as const

// Requests tried out on the page go to where the page came from, which is all that its policy lets them reach.
const initScript = `Scalar.createApiReference('#reference', {
  ...${JSON.stringify(settings)},
  servers: [{ url: new URL('.', location.href).href.replace(/\\/$/, '') }],
})
`
const initPath = `/docs/init-${createHash('sha256').update(initScript).digest('hex').slice(0, 12)}.js`

// Relative addresses, so that the page also works behind a proxy that serves it under a path.
const page = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Posthorn API</title>
<link rel="icon" href="data:,">
</head>
<body>
<div id="reference"></div>
<noscript>This page needs JavaScript. The same reference for machines: <a href="api/v1/openapi.json">openapi.json</a>.</noscript>
<script src="${scriptPath.slice(1)}"></script>
<script src="${initPath.slice(1)}"></script>
</body>
</html>
`

/**
 * Scalar brings its style sheet inside the script and sets style attributes, so styles, and only they, may be inline.
 */
const pagePolicy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self' 'unsafe-inline'",
  "img-src 'self' data:",
  "font-src 'self' data:",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ')

export function referenceRoutes(app: FastifyInstance, face: Face): void {
  const once = <T>(make: () => T): (() => T) => {
    let made: T | undefined
    return () => (made ??= make())
  }
  const document = once(() => makeAsset('application/json; charset=utf-8', openapiJson(face.publicUrl), revalidate))
  const html = once(() => makeAsset('text/html; charset=utf-8', page, revalidate))
  const init = once(() => makeAsset('text/javascript; charset=utf-8', initScript, immutable))
  let script: Promise<Asset> | undefined

  app.get('/api/v1/openapi.json', (request, reply) => answerAsset(request, reply, document()))
  app.get('/docs', (request, reply) => {
    void reply.header('content-security-policy', pagePolicy)
    return answerAsset(request, reply, html())
  })
  app.get(initPath, (request, reply) => answerAsset(request, reply, init()))
  app.get(scriptPath, async (request, reply) => {
    script ??= loadScript()
    script.catch(() => (script = undefined)) // a worker that could not start may start the next time
    return answerAsset(request, reply, await script)
  })
}

/** In a worker, so that neither its 4 MB of source nor the compression hold up a request, or stay here before somebody asks for it without gzip. */
function loadScript(): Promise<Asset> {
  return new Promise((resolve, reject) => {
    const worker = new Worker(new URL('reference-script.ts', import.meta.url))
    worker.once('message', ({ hash, gzipped }: { hash: string; gzipped: Uint8Array }) =>
      resolve({ type: 'text/javascript; charset=utf-8', hash, gzipped: Buffer.from(gzipped), cache: immutable }),
    )
    worker.once('error', reject)
    worker.once('exit', (code) => reject(new Error(`the worker that prepares the API reference ended with ${code}`)))
  })
}
