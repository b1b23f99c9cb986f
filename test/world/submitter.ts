// A program that hands in mail over SMTP: nodemailer, with a login of a workspace's own, over STARTTLS.
import { createTransport } from 'nodemailer'
import type { Posthorn } from './posthorn.ts'

export interface SmtpLogin {
  readonly id: string
  readonly username: string
  readonly password: string
}

export const makeSmtpLogin = (posthorn: Posthorn, workspace: { readonly id: string }): Promise<SmtpLogin> =>
  posthorn.cli('smtp-credential', 'create', workspace.id)

/** `options` are nodemailer's own, such as `pool`. */
export const submitterOf = (posthorn: Posthorn, { username, password }: SmtpLogin, options: object = {}) =>
  createTransport({
    host: '127.0.0.1',
    port: posthorn.smtpPort,
    requireTLS: true,
    tls: { rejectUnauthorized: false },
    auth: { user: username, pass: password },
    ...options,
  })

/** The first message's id, as the final 250 names it. */
export const acceptedAs = (response: string): string | undefined => /[0-9a-f]{8}-[0-9a-f-]{27}/.exec(response)?.[0]
