import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { bounceClasses, bounceRules, classify } from './bounce-rules.ts'
import type { BounceClass, BounceEvidence, BounceStage, BounceVerdict } from './bounce-rules.ts'
import { effortOf } from '../base/effort.test-kit.ts'

/** A reply in our own session: basic code, enhanced code or nothing, text. */
type Reply = readonly [stage: BounceStage, code: number, enhanced: string, text: string]
const reply = ([stage, code, enhanced, text]: Reply): BounceEvidence => ({
  stage,
  code,
  text: enhanced === '' ? text : `${enhanced} ${text}`,
  ...(enhanced === '' ? {} : { enhancedCode: enhanced }),
})
const report = (status: string, text: string): BounceEvidence => ({ stage: 'report', action: 'failed', enhancedCode: status, text }) // prettier-ignore

const effects: Record<BounceClass, [BounceVerdict['event'], boolean]> = {
  success: ['delivered', false],
  information: [undefined, false],
  delay: ['soft_bounce', false],
  temporary: ['soft_bounce', false],
  sender: ['soft_bounce', false],
  capacity: ['soft_bounce', false],
  content: ['soft_bounce', false],
  policy: ['soft_bounce', false],
  system: ['soft_bounce', false],
  bad_mailbox: ['hard_bounce', true],
  bad_domain: ['hard_bounce', true],
  inactive: ['hard_bounce', true],
  filtered: ['soft_bounce', false],
  owner_changed: ['hard_bounce', true],
  unknown: ['soft_bounce', false],
  local: [undefined, false],
}

const rows: Record<string, [BounceClass, permanent: boolean, ...BounceEvidence[]]> = {
  'local-finding': [
    'local',
    false,
    { stage: 'local', text: 'NXDOMAIN' },
    reply(['local', 550, '5.1.1', 'user unknown']),
  ],
  'report-delivered': ['success', false, { stage: 'report', action: 'delivered', text: '550 5.1.1 user unknown' }],
  'report-relayed': [
    'information',
    false,
    { stage: 'report', action: 'relayed', enhancedCode: '2.0.0', text: '' },
    { stage: 'report', action: 'expanded', text: '' },
  ],
  'report-delayed': [
    'delay',
    false,
    { stage: 'report', action: 'delayed', enhancedCode: '4.4.1', text: '' },
    { stage: 'report', action: 'delayed', enhancedCode: '5.1.1', text: '550 5.1.1 user unknown' },
  ],
  accepted: ['success', false, reply(['eod', 250, '2.0.0', 'queued'])],
  'no-refusal': ['information', false, reply(['rcpt', 250, '2.1.5', 'ok']), reply(['data', 354, '', 'go ahead'])],
  'gmail-rate': [
    'policy',
    true,
    reply(['rcpt', 550, '5.2.1', 'The user you are trying to contact is receiving mail at a rate that prevents more.']),
  ],
  'temporary-reply': [
    'temporary',
    false,
    reply(['rcpt', 450, '4.2.0', 'greylisted']),
    reply(['rcpt', 450, '', 'user unknown']),
    reply(['rcpt', 450, '4.1.1', 'unverified address']),
    reply(['rcpt', 550, '4.1.1', 'disagrees with itself']),
    reply(['mail', 421, '', 'too many connections']),
    report('4.4.7', 'smtp; 550 5.1.1 user unknown'),
    report('5.0.0', 'smtp; 450 4.7.1 access denied'),
    report('4.4.7', ''),
  ],
  'outlook-access-denied': [
    'bad_mailbox',
    true,
    reply(['rcpt', 550, '5.4.1', 'Recipient address rejected: Access denied. AS(201806281) [x.outlook.com]']),
    report('5.4.1', 'smtp;550 5.4.1 Recipient address rejected: Access denied. [x.prod.protection.outlook.com]'),
    reply(['eod', 550, '5.4.1', 'All recipient addresses rejected : Access denied [x.prod.protection.outlook.com]']),
    // Barracuda's gateways, of what Exchange Online says to them (ActiveCampaign/smtp-field-manual, 550.json).
    reply([
      'rcpt',
      550,
      '',
      'cuda_nsu 5.4.1 [x@example.com]: Recipient address rejected: Access denied [x.outlook.com]',
    ]),
    report(
      '5.0.0',
      'smtp;550 cuda_nsu 5.4.1 [x@example.com]: Recipient address rejected: Access denied [x.outlook.com]',
    ),
  ],
  'outlook-recipient-not-found': [
    'bad_mailbox',
    true,
    reply(['rcpt', 550, '5.1.10', 'RESOLVER.ADR.RecipientNotFound; Recipient not found by SMTP address lookup']),
  ],
  'gmail-mailbox-full': ['capacity', true, reply(['rcpt', 552, '5.2.2', 'The email account is over its limit'])],
  'gmail-unauthenticated': ['policy', true, reply(['eod', 550, '5.7.26', 'This mail has been blocked'])],
  'microsoft-unauthenticated': ['policy', true, reply(['eod', 550, '5.7.515', 'Access denied, sending domain x'])],
  'yahoo-no-account': [
    'bad_mailbox',
    true,
    reply(['eod', 554, '', "delivery error: dd This user doesn't have a yahoo.com account (a@yahoo.com) [0]"]),
  ],
  'yahoo-mailbox-not-found': [
    'bad_mailbox',
    true,
    reply(['eod', 552, '', '1 Requested mail action aborted, mailbox not found']),
    report('5.0.0', 'smtp; 552 1 Requested mail action aborted, mailbox not found (in reply to end of DATA command)'),
    reply(['eod', 554, '', 'delivery error: dd Not a valid recipient - atlas114.aol.mail.ne1.yahoo.com']),
    reply(['eod', 554, '', 'delivery error: dd a@yahoo.com is no longer valid. [-20] - mta1168.mail.ne1.yahoo.com']),
  ],
  'yahoo-blocklist': ['policy', true, reply(['mail', 553, '5.7.1', '[BL21] Connections will not be accepted'])],
  'orange-mailbox-full': ['capacity', true, reply(['rcpt', 550, '5.1.1', 'Boite pleine. OFR_417 [417]'])],
  'ses-suppression-list': [
    'policy',
    true,
    report('5.1.1', 'Amazon SES has suppressed sending to this address because it has a recent history of bouncing as an invalid address.'), // prettier-ignore
    report('5.1.1', 'Amazon SES did not send the message to this address because it is on the suppression list for your account.'), // prettier-ignore
  ],
  'cloudmark-address-rejected': ['bad_mailbox', true, reply(['rcpt', 550, '5.1.0', 'Address rejected.'])],
  'cisco-address-rejected': [
    'bad_mailbox',
    true,
    reply(['rcpt', 550, '', '#5.1.0 Address rejected a@b.example']),
    report('5.0.0', 'host mx.b.example[192.0.2.1] said: 550 #5.1.0 Address rejected. (in reply to RCPT TO command)'),
  ],
  'hotmail-mailbox-unavailable': [
    'bad_mailbox',
    true,
    reply(['rcpt', 550, '5.5.0', 'Requested action not taken: mailbox unavailable (S2017062302).']),
    report('5.5.0', 'smtp;550 5.5.0 Requested action not taken: mailbox unavailable. [x.outlook.com]'),
  ],
  'yandex-no-such-user': ['bad_mailbox', true, reply(['rcpt', 550, '5.7.1', 'No such user!'])],
  'stalwart-no-mailbox': [
    'bad_mailbox',
    true,
    reply(['rcpt', 550, '5.1.2', 'Mailbox does not exist.']),
    report('5.1.2', 'smtp; 550 5.1.2 Mailbox does not exist.'),
  ],
  'exchange-domain-does-not-exist': [
    'bad_domain',
    true,
    report('5.4.310', 'smtp;550 5.4.310 DNS domain a.example does not exist [Message=InfoDomainNonexistent]'),
    report('5.4.4', 'smtp;554 5.4.4 SMTPSEND.DNS.NonExistentDomain; nonexistent domain'),
  ],
  'local-mailer-unknown-user': ['bad_mailbox', true, report('5.5.0', 'mail.local: unknown user: a 554 <a@b.example>... Service unavailable')], // prettier-ignore
  'orange-invalid-recipient': [
    'bad_mailbox',
    true,
    reply(['rcpt', 550, '5.5.0', 'Adresse destinataire invalide. Invalid recipient. LPN007_416']),
    reply(['rcpt', 550, '5.1.1', 'Adresse d au moins un destinataire invalide. Invalid recipient. OFR_416 [416]']),
  ],
  'sender-code': [
    'sender',
    true,
    reply(['mail', 550, '5.1.8', 'no such user']),
    reply(['mail', 550, '5.1.7', 'bad']),
    reply(['rcpt', 550, '5.7.27', 'sender has null MX']),
  ],
  'sender-words': [
    'sender',
    true,
    reply(['rcpt', 550, '', 'Sender rejected']),
    reply(['rcpt', 550, '5.1.1', '<a@b.example>: Sender address rejected: User unknown']),
    reply(['rcpt', 550, '', 'unknown sender']),
    reply(['rcpt', 550, '', 'HELO name does not exist']),
    reply(['rcpt', 553, '', 'Domain of sender address a@b.example does not exist']),
    reply(['rcpt', 550, '', 'Your account has been suspended']),
    reply(['rcpt', 550, '', 'Your account has expired']),
    reply(['rcpt', 550, '', 'your mailbox is closed']),
    reply(['rcpt', 550, '', 'From address does not exist']),
    // GMX, web.de and mail.com begin all their refusals of mail with the same line; the last one tells.
    reply(['rcpt', 550, '', 'Requested action not taken: mailbox unavailable\nSender address is not allowed.']),
    reply(['rcpt', 550, '', 'Requested action not taken: mailbox unavailable\ninvalid DNS MX or A/AAAA resource record.']), // prettier-ignore
    reply(['rcpt', 550, '5.1.1', 'Sender is unknown']),
    reply(['rcpt', 550, '', "The sender's mailbox does not exist"]),
    reply(['rcpt', 550, '', 'Envelope sender mailbox unknown']),
    reply(['rcpt', 550, '', 'Bad return address: user unknown']),
    reply(['rcpt', 550, '5.1.1', 'reverse-path: user unknown']),
    // Whoever asks the sender's host in vain says so in the words that others have for the recipient.
    reply(['rcpt', 550, '5.1.1', 'Sender domain does not exist']),
    reply(['rcpt', 550, '', 'Sender mailbox does not exist']),
    reply(['rcpt', 550, '', 'sender account unknown']),
    reply(['rcpt', 550, '', 'Return-path mailbox does not exist']),
    reply(['rcpt', 550, '', 'Your e-mail address <a@b.example> does not exist']),
    reply(['rcpt', 550, '', 'your mailbox is unknown']),
    reply(['rcpt', 550, '', 'Sender callback verification failed\nmailbox unknown']),
    report('5.1.1', 'smtp; 550 5.1.1 Sender mailbox not found'),
    report(
      '5.1.351',
      'smtp;550 5.1.351 Remote server returned unknown recipient or mailbox unavailable -> 550 Requested action not taken: mailbox unavailable Sender address is not allowed.',
    ),
  ],
  'relaying-denied': [
    'sender',
    true,
    reply(['rcpt', 550, '5.1.2', 'Relay not allowed.']),
    reply(['rcpt', 550, '', 'relaying denied']),
    reply(['rcpt', 554, '5.7.1', '<a@b.example>: Relay access denied']),
    reply(['rcpt', 550, '5.1.1', 'not permitted to relay']),
  ],
  'mailbox-full-code': ['capacity', true, reply(['rcpt', 550, '5.2.2', 'no'])],
  'mailbox-full-words': [
    'capacity',
    true,
    reply(['rcpt', 550, '5.1.1', 'Mailbox full']),
    reply(['rcpt', 550, '5.1.1', 'User is over quota']),
    reply(['eod', 552, '', 'Quota exceeded']),
    reply(['rcpt', 552, '5.3.0', 'insufficient system storage']),
    reply(['rcpt', 550, '5.1.1', '<a@b.example>: Recipient address rejected: Mailbox is overquota']),
    reply(['rcpt', 550, '5.1.1', 'MailboxQuotaExceeded']),
    reply(['rcpt', 550, '5.1.1', 'quota_exceeded']),
    reply(['rcpt', 550, '5.1.1', 'mailbox has exceeded its limit']),
    reply(['rcpt', 550, '5.1.1', 'no space left on device']),
    reply(['rcpt', 550, '5.2.1', 'Mailbox does not have enough space']),
    reply(['rcpt', 550, '5.1.1', 'Full mailbox']),
    reply(['rcpt', 550, '5.2.1', 'The recipient mailbox has exceeded its disk space limit']),
    reply(['rcpt', 550, '5.1.1', "The user's space has been used up."]),
    reply(['rcpt', 550, '5.2.1', 'mailfolder is full']),
    reply(['eod', 550, '5.1.1', 'too much mail data']),
    reply(['rcpt', 550, '5.2.1', 'Mailbox space not enough (space limit is 10240KB)']),
    reply(['rcpt', 550, '5.2.1', "the user's mailbox has reached its limit"]),
    report('5.2.1', 'smtp; 550 5.2.1 mailbox exceeded the local limit'),
    report(
      '5.1.351',
      'smtp;550 5.1.351 Remote server returned unknown recipient or mailbox unavailable -> 550 Mailbox full',
    ),
    report('5.0.0', "smtp; 5.1.0 - Unknown address error 550-'5.2.0 <a@b.example>... Mailbox Full'"),
  ],
  'mailbox-full-elsewhere': [
    'capacity',
    true,
    reply(['rcpt', 550, '5.1.1', 'Das Postfach des Empfängers ist voll']),
    reply(['rcpt', 550, '5.1.1', 'Postfach ist überfüllt']),
    reply(['rcpt', 550, '5.1.1', 'Die Mailbox ist voll']),
    reply(['rcpt', 550, '5.1.1', 'La boîte aux lettres du destinataire est pleine']),
    reply(['rcpt', 550, '5.1.1', 'boite mail saturée']),
    reply(['rcpt', 550, '5.1.1', 'Espace disque insuffisant']),
    reply(['rcpt', 550, '5.1.1', 'Buzón lleno']),
    reply(['rcpt', 550, '5.1.1', 'El buzón del destinatario está lleno']),
    reply(['rcpt', 550, '5.1.1', 'Caixa postal do destinatário cheia']),
    reply(['rcpt', 550, '5.1.1', 'Cota de disco excedida']),
    reply(['rcpt', 550, '5.1.1', 'Casella di posta piena']),
    reply(['rcpt', 550, '5.1.1', 'Postvak van de ontvanger is vol']),
    reply(['rcpt', 550, '5.1.1', 'Skrzynka odbiorcy jest przepełniona']),
    reply(['rcpt', 550, '5.1.1', 'Schránka příjemce je plná']),
    reply(['rcpt', 550, '5.1.1', 'Alıcının posta kutusu dolu']),
    reply(['rcpt', 550, '5.1.1', 'почтовый ящик получателя переполнен']),
    reply(['rcpt', 550, '5.1.1', 'превышена квота']),
    reply(['rcpt', 550, '5.1.1', '邮箱已满']),
    reply(['rcpt', 550, '5.1.1', '收件人邮箱空间不足']),
    reply(['rcpt', 550, '5.1.1', 'メールボックスの容量を超えています']),
    reply(['rcpt', 550, '5.1.1', '받는 사람의 메일함이 가득 찼습니다']),
    reply(['rcpt', 550, '5.1.1', Buffer.from('La boîte aux lettres est pleine').toString('latin1')]),
  ],
  'content-code': [
    'content',
    true,
    reply(['eod', 550, '5.2.3', 'x']),
    reply(['mail', 552, '5.3.4', 'x']),
    reply(['eod', 550, '5.6.0', 'x']),
  ],
  'message-size-words': [
    'content',
    true,
    reply(['eod', 552, '', 'Message size exceeds fixed limit']),
    reply(['mail', 552, '', 'message too large']),
  ],
  'content-words': [
    'content',
    true,
    reply(['eod', 554, '', 'virus found']),
    reply(['eod', 550, '', 'attachments of this kind are refused']),
    reply(['eod', 550, '', 'duplicate header']),
    reply(['eod', 550, '5.2.1', 'Content Filter agent quarantined this message']),
  ],
  'policy-code': [
    'policy',
    true,
    reply(['rcpt', 550, '5.7.1', 'user unknown']),
    reply(['eod', 550, '5.7.0', 'x']),
    reply(['rcpt', 550, '5.7.133', 'x']),
    report('5.1.1', 'SMTP; 550 5.7.1 IP address is bad'),
    report(
      '5.1.351',
      'smtp;550 5.1.351 Remote server returned unknown recipient or mailbox unavailable -> 550 5.7.1 no',
    ),
  ],
  'policy-words': [
    'policy',
    true,
    reply(['rcpt', 521, '', 'blocklisted']),
    reply(['eod', 554, '', 'spam detected, user unknown']),
    reply(['rcpt', 550, '', 'user unknown: no PTR for your address']),
    reply(['rcpt', 550, '5.1.1', 'too many recipients']),
    reply(['rcpt', 554, '', 'DMARC']),
    reply(['rcpt', 554, '', 'SPF fail']),
    reply(['rcpt', 554, '', 'reverse DNS is missing']),
    reply(['rcpt', 554, '', 'TLS required']),
    reply(['rcpt', 550, '', 'rate limited']),
    reply(['rcpt', 550, '', 'you are greylisted']),
    reply(['eod', 554, '', 'rejected for policy reasons']),
  ],
  'policy-list-operator': [
    'policy',
    true,
    reply(['rcpt', 550, '', 'no such user, see https://www.spamhaus.org/query']),
  ],
  'host-refuses-mail': ['policy', true, reply(['eod', 521, '5.2.1', 'AOL will not accept delivery of this message'])],
  'temporary-words': [
    'temporary',
    true,
    reply(['rcpt', 550, '5.2.1', 'Mailbox temporarily disabled: a@b.example']),
    reply(['rcpt', 550, '5.1.1', 'User temporarily unavailable']),
    reply(['rcpt', 550, '', 'this account is temporarily disabled']),
    reply(['rcpt', 550, '', 'Requested action not taken: mailbox unavailable, try again later']),
    reply(['rcpt', 550, '5.2.1', 'Account disabled temporarly for exceeding receiving limits']),
    reply(['rcpt', 550, '5.2.1', 'The recipient has exceeded the hourly limit']),
    reply(['rcpt', 550, '5.2.1', 'daily receive limit reached']),
    reply(['rcpt', 550, '5.1.1', 'message count limit exceeded']),
    reply(['rcpt', 550, '5.2.1', 'Mailbox limit exeeded for this email address']),
    report('5.1.1', 'smtp; 550 5.1.1 no such user: directory down, please retry'),
  ],
  'list-expansion-code': ['system', true, reply(['rcpt', 550, '5.2.4', 'user unknown'])],
  'host-not-found': [
    'bad_domain',
    true,
    report('5.4.4', 'smtp; 550 5.4.4 Invalid domain'),
    report('5.4.4', 'dns; host not found'),
  ],
  'routing-code': [
    'system',
    true,
    reply(['rcpt', 550, '5.4.4', 'host not found']),
    reply(['rcpt', 554, '5.4.6', 'Too many hops']),
    reply(['rcpt', 554, '5.4.6', 'Hop limit exceeded']),
    reply(['rcpt', 550, '5.4.1', 'user unknown']),
    report('5.4.4', ''),
  ],
  'routing-words': [
    'system',
    true,
    reply(['rcpt', 550, '5.1.1', '<a@b.example>: Recipient address rejected: undeliverable address: mail for b.example loops back to myself']), // prettier-ignore
    reply(['rcpt', 550, '5.1.1', '<a@b.example>: Recipient address rejected: undeliverable address: connect to c.b.example[192.0.2.1]:25: Connection timed out']), // prettier-ignore
    reply(['rcpt', 550, '5.1.1', '<a@b.example>: Recipient address rejected: undeliverable address: Host or domain name not found. Name service error for name=c.b.example type=A: Host not found']), // prettier-ignore
  ],
  'mail-system-code': ['system', true, reply(['rcpt', 550, '5.3.0', 'user unknown'])],
  'protocol-code': ['system', true, reply(['rcpt', 550, '5.5.0', 'mailbox unavailable']), report('5.5.0', '')],
  'syntax-reply': ['system', true, reply(['rcpt', 500, '', 'user unknown']), reply(['data', 503, '', 'no'])],
  'parameters-reply': ['system', true, reply(['mail', 555, '', 'parameters'])],
  'refused-at-mail': [
    'sender',
    true,
    reply(['mail', 550, '5.1.1', 'user unknown']),
    reply(['mail', 550, '', 'no such user']),
    reply(['mail', 525, '5.7.13', 'disabled']),
    // Of a sender whom the next host has asked for, and not found.
    // A gateway asks the host behind it, which refused the gateway before it was asked.
    reply(['rcpt', 550, '5.1.1', '<a@b.example>: Recipient address rejected: undeliverable address: host c.b.example[192.0.2.1] said: 550 no (in reply to MAIL FROM command)']), // prettier-ignore
    reply(['rcpt', 550, '5.1.1', '<a@b.example>: Recipient address rejected: undeliverable address: host c.b.example[192.0.2.1] refused to talk to me: 554 no']), // prettier-ignore
    report('5.1.1', 'smtp; 550 5.1.1 User unknown (in reply to MAIL FROM command)'),
    report('5.0.0', 'SMTP error from remote mail server after pipelined MAIL FROM:<a@b.example> SIZE=123: 550 unknown user'), // prettier-ignore
    report('5.0.0', 'host mx.b.example[192.0.2.1] refused to talk to me: 550 Requested action not taken: mailbox unavailable'), // prettier-ignore
  ],
  'bad-mailbox-code': [
    'bad_mailbox',
    true,
    reply(['rcpt', 550, '5.1.1', 'The email account that you tried to reach\ndoes not exist']),
    reply(['rcpt', 553, '5.1.3', 'bad syntax']),
    reply(['rcpt', 550, '5.1.1', '<a@b.example>: Recipient address rejected: undeliverable address: host c.b.example[192.0.2.1] said: 550 5.1.1 no such user (in reply to RCPT TO command)']), // prettier-ignore
    reply(['eod', 551, '5.1.6', 'moved']),
    reply(['eod', 550, '5.1.1', 'x']),
    report('5.1.1', ''),
    report('5.0.0', 'smtp; 550 5.1.1 <a@b.example>'),
    report('5.0.350', 'smtp;550 5.0.350 Remote server returned an error -> 550 5.1.1 no'),
    report('5.0.0', 'smtp; 550 Requested action not taken (#5.1.1)'),
    report('5.1.1 (bad destination mailbox address)', 'X-Unix; 67'),
    // A relay's own word for it, where the reply says nothing.
    report('5.1.1', 'smtp; 550 no'),
    { ...report('5.1.1', 'smtp; 550 sorry (#5.1.1)'), isStatus: true },
    { ...report('5.1.1', 'smtp; 554 no'), isStatus: true },
  ],
  'exchange-unknown-recipient': [
    'bad_mailbox',
    true,
    report('5.1.351', 'smtp;550 5.1.351 Remote server returned unknown recipient or mailbox unavailable -> 550'),
  ],
  'bad-domain-code': ['bad_domain', true, report('5.1.2', ''), report('5.1.10', 'smtp; 550 5.1.10 null MX')],
  'bad-domain-reply': ['bad_domain', true, report('', 'smtp; 556 domain does not accept mail')],
  'inactive-code': ['inactive', true, reply(['rcpt', 550, '5.2.1', 'disabled']), reply(['rcpt', 550, '5.7.13', 'x'])],
  'inactive-reply': ['inactive', true, reply(['rcpt', 525, '', 'x'])],
  'inactive-words': [
    'inactive',
    true,
    reply(['rcpt', 550, '', 'This account has been disabled']),
    reply(['rcpt', 554, '', 'account inactive']),
    reply(['rcpt', 550, '', 'mailbox <a@b.example> is suspended']),
    reply(['rcpt', 550, '', '<a@b.example>: Recipient address rejected: Account closed due to inactivity.']),
    reply(['rcpt', 550, '', 'account expired']),
    reply(['rcpt', 550, '', 'User account not activated']),
    reply(['rcpt', 550, '', 'Account is not active']),
  ],
  'user-unknown-words': [
    'bad_mailbox',
    true,
    reply(['rcpt', 550, '', 'User unknown']),
    reply(['rcpt', 550, '', 'No such user here']),
    reply(['rcpt', 550, '', "your recipient's mailbox does not exist"]),
    report('', 'smtp; 550 Your mail was not delivered: user unknown'),
    reply(['rcpt', 551, '', 'User a@b.example does not exist']),
    reply(['rcpt', 553, '', 'recipient not found']),
    reply(['rcpt', 550, '', 'Mailbox ( a@b.example ) not found or inactivated']),
    reply(['rcpt', 550, '', 'a@b.example:user not exist']),
    reply(['rcpt', 550, '', 'recipient unrecognized']),
    reply(['rcpt', 550, '', 'unknown or illegal user: a@b.example']),
    reply(['rcpt', 550, '', 'not user of this server']),
    reply(['rcpt', 550, '5.0.0', 'unknown user']),
    reply(['rcpt', 550, '5.1.0', '<spam@blocked.example>: user unknown']), // nobody's name decides
    report('5.0.0', 'smtp; 550 <a@b.example>: User unknown'),
  ],
  'mailbox-unavailable-words': [
    'bad_mailbox',
    true,
    reply(['rcpt', 550, '', 'Requested action not taken: mailbox unavailable']),
  ],
  'user-unknown-after-data': [
    'filtered',
    true,
    reply(['eod', 550, '', 'User unknown']),
    reply(['data', 554, '', 'no such user']),
    report('5.0.0', 'smtp; 550 no such user (in reply to end of DATA command)'),
  ],
  'exim-unrouteable': ['bad_domain', true, reply(['rcpt', 550, '', 'Unrouteable address'])],
  'exim-unrouteable-report': ['bad_domain', true, report('', 'a@b.example Unrouteable address')],
  'sendmail-host-unknown': ['bad_domain', true, report('', '550 <a@b.example>... Host unknown')],
  'host-not-found-words': ['bad_domain', true, report('5.0.0', 'all relevant MX records point to non-existent hosts')],
  'inactive-report-words': ['inactive', true, report('', "The user's account is disabled.")],
  'user-unknown-report-words': [
    'bad_mailbox',
    true,
    report('', 'unknown local-part "a" in domain "b.example"'),
    report('5.0.0', 'User a (a@b.example) not listed in Domino Directory'),
    report('', 'MSEXCH:IMS:A:B:C 0 (000C05A6) Unknown Recipient'),
  ],
  'owner-changed-code': [
    'owner_changed',
    true,
    reply(['rcpt', 550, '5.7.17', 'x']),
    reply(['rcpt', 550, '5.7.18', 'x']),
  ],
  'no-rule': [
    'unknown',
    true,
    reply(['rcpt', 550, '', 'no']),
    { ...report('5.1.1', 'smtp; 550 no'), isStatus: true },
    reply(['rcpt', 554, '', 'user unknown']),
    reply(['rcpt', 552, '', 'no such user']),
    reply(['rcpt', 550, '5.1.2', 'bad destination system']), // only a remote report may say so
    reply(['rcpt', 556, '', 'no mail here']),
    reply(['eod', 554, '5.0.0', 'transaction failed']),
    reply(['rcpt', 550, '', 'this is exim 4.9.2']),
    reply(['rcpt', 550, '', 'the recipient server closed the connection']),
    report('5.0.0', 'smtp; 550 delivery to user <a@b.example> expired'),
    reply(['rcpt', 550, '', 'domain does not exist']), // whose?
    report('', ''),
    report('5.0.0', 'X-Unix; 255'),
  ],
}

describe('each row of the table', () => {
  for (const [rule, [name, permanent, ...cases]] of Object.entries(rows))
    for (const evidence of cases)
      test(`${rule}: ${evidence.stage} ${evidence.code ?? ''} ${evidence.text}`, () => {
        const [event, suppress] = effects[name]
        expect(classify(evidence)).toEqual({ class: name, rule, event, suppress, permanent })
      })

  test('has a stable name of its own, and a case here', () => {
    const names = bounceRules.map((rule) => rule.name)
    expect(new Set(names).size).toBe(names.length)
    for (const name of names) expect(name).toMatch(/^[a-z0-9]+(-[a-z0-9]+)*$/)
    expect(Object.keys(rows)).toEqual([...names, 'no-rule'])
    expect(new Set(Object.values(rows).map(([each]) => each))).toEqual(new Set(bounceClasses))
  })
})

test('a rate limit with a temporary code is a delay of ours, not a verdict on anybody', () => {
  const evidence = reply(['rcpt', 450, '4.2.1', 'The user you are trying to contact is receiving mail at a rate that'])
  expect(classify(evidence)).toMatchObject({
    rule: 'gmail-rate',
    event: 'soft_bounce',
    permanent: false,
    suppress: false,
  })
})

const evidences = fc.record({
  stage: fc.constantFrom<BounceStage>('mail', 'rcpt', 'data', 'eod', 'report', 'local'),
  code: fc.option(fc.oneof(fc.integer({ min: 200, max: 599 }), fc.double()), { nil: undefined }),
  enhancedCode: fc.option(fc.oneof(fc.constantFrom('5.1.1', '4.2.1', '5.2.1', '5.7.17'), fc.string()), {
    nil: undefined,
  }),
  text: fc.oneof(
    fc.string({ unit: 'binary' }),
    fc.array(fc.constantFrom('user', 'unknown', '550', '5.1.1', 'spam', 'no such', 'mailbox', 'full', '\n', '450')).map((all) => all.join(' ')), // prettier-ignore
  ),
  action: fc.constantFrom(undefined, 'failed', 'delayed', 'delivered', 'relayed', 'expanded'),
})

test('whatever a stranger wrote, there is one verdict, and only the recipient itself is ever suppressed for it', () => {
  fc.assert(
    fc.property(evidences, (evidence) => {
      const verdict = classify(evidence)
      expect([verdict.event, verdict.suppress]).toEqual(effects[verdict.class])
      expect(verdict.suppress).toBe(verdict.event === 'hard_bounce')
      // A hard bounce is a refusal for good, said after the recipient was named.
      if (verdict.suppress) expect(verdict.permanent && evidence.stage !== 'mail').toBe(true)
      if (evidence.code !== undefined && evidence.code >= 400 && evidence.code < 500)
        expect(verdict.permanent).toBe(false)
    }),
    { numRuns: 3_000 },
  )
})

test('a veto holds wherever the text is cut into lines, and however it is written', () => {
  for (const text of ['MAILBOX  FULL', 'Mailbox\nfull', 'mailbox\r\n\tis full'])
    expect(classify(reply(['rcpt', 550, '5.1.1', text])).class).toBe('capacity')
})

test('a long text costs no more than a short one', () => {
  const effort = effortOf(() => {
    for (const unit of [
      'a ',
      'user ',
      'is ',
      'account a ',
      'unknown ',
      '5.1.',
      'the sender ',
      '- ',
      '550 ',
      'exceed a ',
      'x',
    ])
      classify({ stage: 'report', text: unit.repeat(200_000), action: 'failed' })
  })
  expect(effort).toBeLessThan(1_000)
})
