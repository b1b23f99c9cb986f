// Lines to paste that send over SMTP: from a program, and by hand.
import { quoted } from '../quoted.ts'
import type { SmtpCredentialCreated } from '../shapes.ts'
import { Snippets } from '../ui/copy.tsx'

interface Way extends Pick<SmtpCredentialCreated, 'username' | 'password' | 'server'> {
  readonly sender: string
}

const recipient = 'delivered@simulator.posthorn.test'

export function SmtpSnippets({ way }: { readonly way: Way }) {
  return (
    <div className="grid gap-2">
      <Snippets texts={{ Node: node(way), Python: python(way), swaks: swaks(way) }} />
      <p className="text-sm text-soft">
        If your program refuses the certificate: that of a new installation is self-signed. Who runs it can give you the
        certificate, or set one that programs trust.
      </p>
    </div>
  )
}

/** In JavaScript and in Python; an address may hold a quotation mark (`o'neil@example.org`). */
const text = (value: string): string => `'${value.replaceAll(/[\\']/g, '\\$&')}'`

const node = ({ username, password, server, sender }: Way) => `// npm install nodemailer
import { createTransport } from 'nodemailer'

const transport = createTransport({
  host: ${text(server.host)},
  port: ${server.port},
  requireTLS: true,
  auth: { user: ${text(username)}, pass: ${text(password)} },
})
const { response } = await transport.sendMail({
  from: ${text(sender)},
  to: ${text(recipient)},
  subject: 'Hello',
  text: 'It works.',
  html: '<p>It works.</p>',
})
console.log(response)`

const python = ({ username, password, server, sender }: Way) => `import smtplib, ssl
from email.message import EmailMessage

mail = EmailMessage()
mail['From'] = ${text(sender)}
mail['To'] = ${text(recipient)}
mail['Subject'] = 'Hello'
mail.set_content('It works.')
mail.add_alternative('<p>It works.</p>', subtype='html')

with smtplib.SMTP(${text(server.host)}, ${server.port}) as smtp:
    smtp.starttls(context=ssl.create_default_context())
    smtp.login(${text(username)}, ${text(password)})
    smtp.send_message(mail)`

const swaks = ({ username, password, server, sender }: Way) =>
  `swaks --server ${server.host} --port ${server.port} --tls \\
  --auth PLAIN --auth-user ${username} --auth-password ${password} \\
  --from ${quoted(sender)} --to ${recipient} \\
  --header 'Subject: Hello' --body 'It works.'`
