// From which mailbox a program can send now: an active one, on a domain that was verified. Where there is none, what is missing.
import { Link } from '@tanstack/react-router'
import { useRead } from './api.ts'
import type { Domain, ListOf, Mailbox } from './shapes.ts'

export const useDomains = () => useRead<ListOf<Domain>>(['domains'], '/api/v1/domains')

export const maySend = ({ status }: Domain): boolean => status === 'verified' || status === 'degraded'

export interface Sender {
  readonly mailbox: Mailbox | undefined
  /** What the active mailboxes wait for, where none can send. */
  readonly waitsFor: Domain | undefined
}

/** Undefined until it is known. */
export function useSender(): Sender | undefined {
  const mailboxes = useRead<ListOf<Mailbox>>(['mailboxes'], '/api/v1/mailboxes')
  const domains = useDomains()
  if (mailboxes.data === undefined || domains.data === undefined) return undefined
  const active = mailboxes.data.items.filter(({ status }) => status === 'active')
  const domainOf = ({ domain }: Mailbox) => domains.data.items.find(({ name }) => name === domain)
  const mailbox = active.find((each) =>
    domains.data.items.some((domain) => domain === domainOf(each) && maySend(domain)),
  )
  return { mailbox, waitsFor: mailbox === undefined && active[0] !== undefined ? domainOf(active[0]) : undefined }
}

export function NoSender({ waitsFor }: { readonly waitsFor: Domain | undefined }) {
  return (
    <p className="text-sm text-soft">
      {waitsFor === undefined ? (
        <>
          There is no active mailbox to send from yet:{' '}
          <Link to="/domains" className="text-accent underline">
            add a domain
          </Link>
          , then a{' '}
          <Link to="/mailboxes" className="text-accent underline">
            mailbox
          </Link>
          .
        </>
      ) : (
        <>
          {waitsFor.name} is not verified, and until then nothing is taken from its mailboxes:{' '}
          <Link to="/domains/$domainId" params={{ domainId: waitsFor.id }} className="text-accent underline">
            see which records are missing
          </Link>
          .
        </>
      )}
    </p>
  )
}
