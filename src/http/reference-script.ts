// Runs in a worker (reference.ts): takes the browser script of the API reference out of the package that carries it,
// compresses it, and ends. The package keeps the script inside a Fastify plugin, so the plugin is asked for it.
import { createHash } from 'node:crypto'
import { parentPort } from 'node:worker_threads'
import { gzipSync } from 'node:zlib'
import scalar from '@scalar/fastify-api-reference'
import fastify from 'fastify'

const app = fastify()
await app.register(scalar, { routePrefix: '/', configuration: { url: '/' } })
const { statusCode, rawPayload } = await app.inject('/js/scalar.js')
await app.close()
if (statusCode !== 200) throw new Error(`the package of the API reference answered ${statusCode} for its script`)
// Its last line points to a source map that is not there.
const bytes = Buffer.from(rawPayload.toString('utf8').replace(/\n\/\/# sourceMappingURL=.*\s*$/, '\n'))
const hash = createHash('sha256').update(bytes).digest('base64url').slice(0, 22)
parentPort?.postMessage({ hash, gzipped: gzipSync(bytes, { level: 9 }) })
