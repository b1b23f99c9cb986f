// The two cookies of the dashboard: the session, and the device on which somebody has signed in before. Out of reach of scripts and of other
// sites; over HTTPS under the prefix `__Host-`, which no other host or path can set (RFC 6265bis 4.1.3.2).
import cookies from '@fastify/cookie'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { limits } from '../config.ts'
import type { Browser, SignedIn } from '../workspace/workspace.ts'
import { callerAddress } from './caller-address.ts'

const yearSeconds = 365 * 24 * 3600

export interface Jar {
  token(request: FastifyRequest): string | undefined
  /** What a sign-in wants to know of the browser. */
  browser(request: FastifyRequest): Browser
  give(reply: FastifyReply, signedIn: SignedIn): void
  /** Of somebody who has not signed in by it. */
  giveDevice(reply: FastifyReply, device: string): void
  takeBack(reply: FastifyReply): void
}

export function makeJar(app: FastifyInstance, publicUrl: string): Jar {
  // Without its hook: requests of the API, which carry no cookies, are not parsed for them.
  void app.register(cookies, { hook: false })
  const secure = publicUrl.startsWith('https:')
  const prefix = secure ? '__Host-posthorn' : 'posthorn'
  const names = { session: prefix, device: `${prefix}-device` }
  const options = { path: '/', httpOnly: true, sameSite: 'strict', secure } as const
  const read = (request: FastifyRequest): Record<string, string | undefined> => {
    const header = request.headers.cookie
    return header === undefined ? {} : app.parseCookie(header)
  }
  const deviceCookie = (device: string) =>
    app.serializeCookie(names.device, device, { ...options, maxAge: yearSeconds })
  return {
    token: (request) => read(request)[names.session],
    browser: (request) => {
      const { [names.session]: token, [names.device]: device } = read(request)
      return {
        address: callerAddress(request),
        agent: request.headers['user-agent'] ?? '',
        ...(token !== undefined && { token }),
        ...(device !== undefined && { device }),
      }
    },
    give: (reply, { token, device }) => {
      reply.header('set-cookie', [
        app.serializeCookie(names.session, token, { ...options, maxAge: limits.sessionMs / 1000 }),
        deviceCookie(device),
      ])
    },
    giveDevice: (reply, device) => {
      reply.header('set-cookie', deviceCookie(device))
    },
    takeBack: (reply) => {
      reply.header('set-cookie', app.serializeCookie(names.session, '', { ...options, maxAge: 0 }))
    },
  }
}
