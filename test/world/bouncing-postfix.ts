// A receiving provider: Debian's Postfix, which takes every recipient of its domain at RCPT and finds out only then. Its reports are its own.
import { chownSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { runPostfix, type Postfix } from './postfix.ts'

export interface BouncingPostfixOptions {
  /** It delivers here: `ann@` has a mailbox, `full@` one that is over its quota, nobody else any; and three names have a transport that says no. */
  readonly domain: string
  /** Where return paths lead: host name and port on loopback. */
  readonly returnPath: { readonly host: string; readonly port: number }
}

const mailboxBytesMax = 1024 * 1024

/** `policy@` is refused, `later@` is put off, `away@` comes back with a code and no word about the recipient. */
export function startBouncingPostfix({ domain, returnPath }: BouncingPostfixOptions): Promise<Postfix> {
  return runPostfix((home, postfixUser) => {
    const mail = join(home, 'mail')
    mkdirSync(mail)
    chownSync(mail, postfixUser, -1)
    writeFileSync(join(mail, 'full'), Buffer.alloc(mailboxBytesMax, 'x\n'))
    chownSync(join(mail, 'full'), postfixUser, -1)
    return Promise.resolve(`
myhostname = mx.${domain}
mydestination =
alias_maps =
alias_database =
mynetworks = 127.0.0.0/8
smtpd_reject_unlisted_recipient = no
smtpd_relay_restrictions = permit_mynetworks, reject
virtual_mailbox_domains = ${domain}
virtual_mailbox_base = ${mail}
virtual_mailbox_maps = inline:{ ann@${domain}=ann, full@${domain}=full }
virtual_uid_maps = static:${postfixUser}
virtual_gid_maps = static:${postfixUser}
virtual_minimum_uid = 1
virtual_mailbox_limit = ${mailboxBytesMax}
message_size_limit = ${mailboxBytesMax}
transport_maps = inline:{
  ${returnPath.host}=smtp:[127.0.0.1]:${returnPath.port},
  { policy@${domain}=error:5.7.1 rejected by policy of the recipient },
  { later@${domain}=retry:4.2.0 mailbox busy } }
smtp_tls_security_level = none
delay_warning_time = 1s
queue_run_delay = 1s
minimal_backoff_time = 1s
maximal_backoff_time = 1s
`)
  })
}
