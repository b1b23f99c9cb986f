// What a person reads after `npm start`: where things are, and the one line to paste that sends a mail.
import { monitoringUrl, publicUrl, type RoleName, type Settings } from './config.ts'
import { causeOfStop } from './domain/delivery-stop.ts'
import type { DeliveryStop } from './store/fence.ts'
import type { FirstLogin, FirstWorkspace } from './first-workspace.ts'

/**
 * The text for standard output, without the line `posthorn ready`. `workspace`: for the commands to paste. `stops`: why nobody delivers. `isReal`: whether mail
 * leaves this machine, be it over the route of one workspace.
 */
export function welcome(
  settings: Settings,
  first: FirstWorkspace | undefined,
  login: FirstLogin | undefined,
  workspace: string,
  scanner: string,
  stops: readonly Pick<DeliveryStop, 'kind' | 'reason'>[] = [],
  isReal = false,
): string {
  const url = publicUrl(settings)
  const route = settings.POSTHORN_ROUTE
  const goes = {
    sandbox: isReal ? 'sandbox, but for workspaces with a route of their own' : 'sandbox: nothing leaves this machine',
    mx: "mx: straight to the recipients' mail hosts",
    relay: route.kind === 'relay' ? `relay ${route.host}:${route.port}` : 'relay',
  }[route.kind]
  const runs = (...roles: RoleName[]) => roles.some((role) => settings.POSTHORN_ROLES.includes(role))
  const sends = runs('smtp')
  const host = settings.POSTHORN_SMTP_HOST
  const smtpHost = ['127.0.0.1', '0.0.0.0', '::', '::1'].includes(host) ? 'localhost' : host
  const lines = [
    '',
    ...(runs('api') ? [`  API        ${url}/api/v1        reference ${url}/docs`, `  Dashboard  ${url}/`] : []),
    `  Metrics    ${monitoringUrl(settings)}/metrics`,
    ...(sends
      ? [
          `  SMTP       ${smtpHost}:${settings.POSTHORN_SMTP_PORT} STARTTLS, ${smtpHost}:${settings.POSTHORN_SMTPS_PORT} TLS`,
        ]
      : []),
    ...(runs('feedback') ? [`  Bounces    by mail to port ${settings.POSTHORN_FEEDBACK_PORT}`] : []),
    ...(runs('deliver') ? [`  Mail goes  ${goes}`] : []),
    ...(runs('api', 'smtp') ? [`  Scanner    ${scanner}`] : []),
    '',
    ...standingStill(stops),
    ...signingIn(login, workspace),
  ]
  if (first === undefined)
    lines.push(
      '  Keys and passwords are kept as hashes only. Others:',
      `    ./bin/posthorn key create "${workspace}" --name local --scope mail.send --scope mail.status.read`,
      ...(sends ? [`    ./bin/posthorn smtp-credential create "${workspace}"`] : []),
      '',
    )
  else
    lines.push(
      `  A workspace is ready: "${first.name}". Its API key is shown this once:`,
      `    ${first.key}`,
      '',
      ...(runs('api') ? overHttp(first, url) : []),
      ...(sends ? overSmtp(first, smtpHost, settings) : []),
    )
  return lines.join('\n')
}

function overHttp({ key, mailboxId }: FirstWorkspace, url: string): string[] {
  return [
    '  Send a mail (paste this):',
    `    curl -s ${url}/api/v1/send \\`,
    `      -H 'Authorization: Bearer ${key}' -H 'Content-Type: application/json' \\`,
    `      -d '{"mailboxId":"${mailboxId}","recipient":"delivered@simulator.posthorn.test","subject":"Hello","bodyText":"It works."}'`,
    '',
    '  Watch it arrive (put the id of the answer at the end):',
    `    curl -s -H 'Authorization: Bearer ${key}' ${url}/api/v1/messages/ID`,
    '',
  ]
}

function overSmtp(
  { sender, smtp }: FirstWorkspace,
  host: string,
  { POSTHORN_SMTP_PORT: port, POSTHORN_TLS_CERT: certificate }: Settings,
): string[] {
  return [
    '  Or over SMTP (STARTTLS; username and password are shown this once):',
    `    ${smtp.username}   ${smtp.password}`,
    `    swaks --server ${host} --port ${port} --tls --auth PLAIN --auth-user ${smtp.username} --auth-password ${smtp.password} \\`,
    `      --from ${sender} --to delivered@simulator.posthorn.test --header 'Subject: Hello' --body 'It works.'`,
    ...(certificate === undefined
      ? ['    The certificate is self-signed; for libraries that refuse it: README.md, "Over SMTP".']
      : []),
    '',
  ]
}

/** The first thing to know where mail is accepted and none goes out. */
function standingStill(stops: readonly Pick<DeliveryStop, 'kind' | 'reason'>[]): string[] {
  return stops.flatMap(({ kind, reason }) => {
    const cause = causeOfStop(reason)
    if (kind === 'drain')
      return [
        '  DELIVERY IS STOPPED by posthorn drain: mail is accepted, and waits. To go on:',
        '    ./bin/posthorn drain --off',
        '',
      ]
    if (kind === 'pause')
      return [
        `  DELIVERY WAITS (${reason}): mail is accepted, and waits.`,
        `    ${cause}.`,
        '    It goes on by itself; ./bin/posthorn doctor tells for whom it waits.',
        '',
      ]
    return [
      `  DELIVERY IS STOPPED (${reason}): mail is accepted, and waits until you decide.`,
      ...(cause === undefined ? [] : [`    ${cause}.`]),
      '    Read docs/restore.md, then run one of these (TIME: when the backup was made, or earlier):',
      '    ./bin/posthorn recover --assume-sent-since TIME',
      '    ./bin/posthorn recover --resume',
      '',
    ]
  })
}

function signingIn(login: FirstLogin | undefined, workspace: string): string[] {
  if (login === undefined)
    return [
      '  Passwords are kept as hashes only. Another login:',
      `    ./bin/posthorn user create --email you@example.org --workspace "${workspace}" --role owner --operator`,
      '',
    ]
  return [
    '  Sign in to the dashboard with this login. Its password is shown this once:',
    `    ${login.email}`,
    `    ${login.password}`,
    '',
  ]
}
