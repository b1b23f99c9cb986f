// Bounces as families of mail systems write them: their documented or well-known forms, with made-up names. Each with what it must
// come to. The corpus in ../shared/corpora/bounces is real mail; this covers the rules where it is absent.

export interface FamilyCase {
  readonly name: string
  readonly mail: string
  /** For each recipient: address, event, rule. */
  readonly want: readonly (readonly [recipient: string | undefined, event: string | undefined, rule: string])[]
}

const daemon = (subject: string, more = ''): string =>
  `Return-Path: <>\nFrom: Mail Delivery System <MAILER-DAEMON@mx.example.net>\nTo: sender@shop.example\nSubject: ${subject}\n${more}`
const original =
  'Return-Path: <b@bounce.shop.example>\nFrom: Shop <sender@shop.example>\nTo: anna@example.org\nSubject: 550 5.1.1 user unknown\nX-Posthorn-Token: b1abc\n\n550 5.1.1 User unknown\nmailbox full\n'

/** multipart/report with a human part, a status part and the returned mail. */
const dsn = (status: string, human = 'It failed.', type = 'message/delivery-status', encoding = '7bit'): string =>
  `${daemon('Undelivered Mail Returned to Sender')}MIME-Version: 1.0\nContent-Type: Multipart/Report; Report-Type=delivery-status;\n boundary="=_b"\n\n--=_b\nContent-Type: text/plain; charset=utf-8\n\n${human}\n\n--=_b\nContent-Type: ${type}\nContent-Transfer-Encoding: ${encoding}\n\n${status}\n--=_b\nContent-Type: message/rfc822\n\n${original}\n--=_b--\n`

const perMessage =
  'Reporting-MTA: dns; mx.example.net\nOriginal-Envelope-Id: QQ123\nArrival-Date: Sat, 21 Nov 2026 05:00:00 +0000\n\n'
const failed = (status: string, diagnostic: string): string =>
  `${perMessage}Final-Recipient: rfc822; anna@example.org\nAction: failed\nStatus: ${status}\nRemote-MTA: dns; mx.example.org\nDiagnostic-Code: smtp; ${diagnostic}\n`

export const families: readonly FamilyCase[] = [
  {
    name: 'Postfix, unknown user',
    mail: dsn(
      failed(
        '5.1.1',
        '550 5.1.1 <anna@example.org>: Recipient address rejected: User unknown in local\n    recipient table',
      ),
    ),
    want: [['anna@example.org', 'hard_bounce', 'bad-mailbox-code']],
  },
  {
    // The status part quotes the reply alone. An alias of hers leads to a host that has asked for our return path.
    name: 'Postfix, refused at MAIL FROM as only the human part says',
    mail: dsn(
      failed('5.1.1', '550 5.1.1 User unknown'),
      '<anna@example.org>: host mx.example.org[192.0.2.1] said: 550 5.1.1 User unknown (in\n    reply to MAIL FROM command)',
    ),
    want: [['anna@example.org', 'soft_bounce', 'refused-at-mail']],
  },
  {
    name: 'Postfix, refused behind DATA as only the human part says',
    mail: dsn(
      failed('5.0.0', '550 No such user here'),
      '<anna@example.org>: host mx.example.org[192.0.2.1] said: 550 No such user here (in\n    reply to end of DATA command)',
    ),
    want: [['anna@example.org', 'soft_bounce', 'user-unknown-after-data']],
  },
  {
    name: 'Exim with a status part, refused at MAIL FROM; another recipient at RCPT TO',
    mail: dsn(
      `${failed('5.0.0', '550 unknown user')}\nFinal-Recipient: rfc822;ben@example.com\nAction: failed\nStatus: 5.0.0\nDiagnostic-Code: smtp; 550 unknown user\n`,
      'A message that you sent could not be delivered:\n\n  anna@example.org\n    host mx.example.org [192.0.2.1]\n    SMTP error from remote mail server after pipelined MAIL FROM:<b1abc@shop.example> SIZE=900:\n    550 unknown user\n  ben@example.com\n    host mx.example.com [192.0.2.2]\n    SMTP error from remote mail server after pipelined RCPT TO:<ben@example.com>:\n    550 unknown user',
    ),
    want: [
      ['anna@example.org', 'soft_bounce', 'refused-at-mail'],
      ['ben@example.com', 'hard_bounce', 'user-unknown-words'],
    ],
  },
  {
    name: 'sendmail, refused at MAIL FROM as only the transcript says',
    mail: dsn(
      failed('5.1.1', '550 5.1.1 User unknown'),
      '   ----- The following addresses had permanent fatal errors -----\n<anna@example.org>\n    (reason: 550 5.1.1 User unknown)\n\n   ----- Transcript of session follows -----\n... while talking to mx.example.org.:\n>>> MAIL From:<b1abc@shop.example> SIZE=900\n<<< 550 5.1.1 User unknown\n554 5.0.0 Service unavailable',
    ),
    want: [['anna@example.org', 'soft_bounce', 'refused-at-mail']],
  },
  {
    // It sends RCPT and DATA in one piece, and shows the last command that it has sent.
    name: 'sendmail, refused at RCPT TO, its transcript naming DATA',
    mail: dsn(
      failed('5.0.0', '550 <anna@example.org>... User unknown'),
      '   ----- Transcript of session follows -----\n... while talking to mx.example.org.:\n>>> DATA\n<<< 550 <anna@example.org>... User unknown\n550 5.1.1 <anna@example.org>... User unknown\n<<< 503 5.0.0 Need RCPT (recipient)',
    ),
    want: [['anna@example.org', 'hard_bounce', 'user-unknown-words']],
  },
  {
    // Of each 550 without a status of its own it makes 5.1.1; the first line of Exim's refusal of a sender names the sender, and what is wrong comes behind it.
    name: 'sendmail, a status that it made of the basic code alone',
    mail: dsn(
      `${failed('5.1.1', '550 Administrative prohibition')}\nFinal-Recipient: rfc822;ben@example.com\nAction: failed\nStatus: 5.1.1\nDiagnostic-Code: SMTP; 550-Verification failed for <b1abc@shop.example>\n\nFinal-Recipient: rfc822;eve@example.com\nAction: failed\nStatus: 5.1.3\nDiagnostic-Code: SMTP; 553 no\n\nFinal-Recipient: rfc822;dan@example.com\nAction: failed\nStatus: 5.1.1\nDiagnostic-Code: SMTP; 550 <dan@example.com> unknown user account\n\nFinal-Recipient: rfc822;kim@example.com\nAction: failed\nStatus: 5.1.1\nDiagnostic-Code: SMTP; 550 sorry (#5.1.1)\n`,
    ),
    want: [
      ['anna@example.org', 'soft_bounce', 'no-rule'],
      ['ben@example.com', 'soft_bounce', 'no-rule'],
      ['eve@example.com', 'soft_bounce', 'no-rule'],
      ['dan@example.com', 'hard_bounce', 'user-unknown-words'],
      ['kim@example.com', 'hard_bounce', 'bad-mailbox-code'],
    ],
  },
  {
    // As docomo and au answer for a recipient who takes mail from those he knows alone.
    name: 'sendmail, refused behind DATA as only its status says',
    mail: dsn(
      failed('5.2.0', '550 Unknown user anna@example.org'),
      '   ----- Transcript of session follows -----\n... while talking to mx.example.org.:\n>>> DATA\n<<< 550 Unknown user anna@example.org\n554 5.0.0 Service unavailable',
    ),
    want: [['anna@example.org', 'soft_bounce', 'user-unknown-after-data']],
  },
  {
    name: 'qmail, refused behind DATA',
    mail: `${daemon('failure notice')}\nHi. This is the qmail-send program at mx.example.net.\nI'm afraid I wasn't able to deliver your message to the following addresses.\n\n<anna@example.org>:\n192.0.2.1 failed after I sent the message.\nRemote host said: 550 no such user\n\n--- Below this line is a copy of the message.\n\n${original}`,
    want: [['anna@example.org', 'soft_bounce', 'user-unknown-after-data']],
  },
  {
    name: 'qmail, refused before any command',
    mail: `${daemon('failure notice')}\nHi. This is the qmail-send program at mx.example.net.\nI'm afraid I wasn't able to deliver your message to the following addresses.\n\n<anna@example.org>:\nConnected to 192.0.2.1 but my name was rejected.\nRemote host said: 550 5.1.1 unknown\n\n--- Below this line is a copy of the message.\n\n${original}`,
    want: [['anna@example.org', 'soft_bounce', 'refused-at-mail']],
  },
  {
    // What it found itself has no diagnostic; the one reply in the words for people is about somebody else.
    name: 'Exim, two recipients behind an alias, of whom one has words alone',
    mail: dsn(
      `${perMessage}Final-Recipient: rfc822;ben@example.com\nAction: failed\nStatus: 5.0.0\nDiagnostic-Code: smtp; 550 5.1.1 no such user\n\nFinal-Recipient: rfc822;anna@example.org\nAction: failed\nStatus: 5.0.0\n`,
      'A message that you sent could not be delivered:\n\n  ben@example.com\n    (generated from anna@example.org)\n    SMTP error from remote mail server after RCPT TO:<ben@example.com>:\n    550 5.1.1 no such user\n\n  anna@example.org\n    mailbox is full: retry timeout exceeded',
    ),
    want: [
      ['ben@example.com', 'hard_bounce', 'bad-mailbox-code'],
      ['anna@example.org', 'soft_bounce', 'mailbox-full-words'],
    ],
  },
  {
    name: 'Postfix, over quota behind a generic status',
    mail: dsn(failed('5.0.0', '552 Mailbox quota exceeded (in reply to end of DATA command)')),
    want: [['anna@example.org', 'soft_bounce', 'mailbox-full-words']],
  },
  {
    name: 'a status that disagrees with the diagnostic',
    mail: dsn(failed('5.1.1 (bad destination mailbox address)', '550 5.7.1 Message rejected by policy')),
    want: [['anna@example.org', 'soft_bounce', 'policy-code']],
  },
  {
    name: 'Postfix, two recipients, one of them delivered, blocks in one piece',
    mail: dsn(
      `${failed('5.1.1', '550 5.1.1 no')}Final-Recipient: rfc822; <ben@example.org>\nAction: delivered (to mailbox)\nStatus: 2.0.0\n`,
    ),
    want: [
      ['anna@example.org', 'hard_bounce', 'bad-mailbox-code'],
      ['ben@example.org', 'delivered', 'report-delivered'],
    ],
  },
  {
    name: 'a delay',
    mail: dsn(`${perMessage}Final-Recipient: rfc822;anna@example.org\nAction: Delayed\nStatus: 4.4.1\nWill-Retry-Until: Sun, 22 Nov 2026 05:00:00 +0000\nDiagnostic-Code: X-Postfix; connect to mx.example.org: Connection refused\n`), // prettier-ignore
    want: [['anna@example.org', 'soft_bounce', 'report-delayed']],
  },
  {
    name: 'relayed and expanded say nothing about delivery',
    mail: dsn(`${perMessage}Final-Recipient: rfc822; anna@example.org\nAction: relayed\nStatus: 2.1.9\n\nFinal-Recipient: rfc822; list@example.org\nAction: expanded\nStatus: 2.1.5\n`), // prettier-ignore
    want: [
      ['anna@example.org', undefined, 'report-relayed'],
      ['list@example.org', undefined, 'report-relayed'],
    ],
  },
  {
    name: 'RFC 6533: international, encoded, in Base64',
    mail: dsn(
      Buffer.from('Reporting-MTA: dns; mx.example.net\n\nFinal-Recipient: utf-8; gr\\x{FC}n@example.org\nAction: failed\nStatus: 5.1.1\nDiagnostic-Code: smtp; 550 5.1.1 unknown\n').toString('base64'),
      'It failed.',
      'message/global-delivery-status',
      'base64',
    ), // prettier-ignore
    want: [['grün@example.org', 'hard_bounce', 'bad-mailbox-code']],
  },
  {
    name: 'a status that is attached as text',
    mail: dsn(failed('5.1.1', '550 5.1.1 no such user'), 'It failed.', 'text/plain; name="details.txt"'),
    want: [['anna@example.org', 'hard_bounce', 'bad-mailbox-code']],
  },
  {
    name: 'Exchange Online',
    mail: dsn(failed('5.1.10', '550 5.1.10 RESOLVER.ADR.RecipientNotFound; Recipient anna@example.org not found by SMTP address lookup')), // prettier-ignore
    want: [['anna@example.org', 'hard_bounce', 'outlook-recipient-not-found']],
  },
  {
    name: 'Domino, which has a type of its own',
    mail: dsn(`${perMessage}Final-Recipient: rfc822;anna@example.org\nAction: failed\nStatus: 5.0.0\nDiagnostic-Code: X-Notes; User anna (anna@example.org) not listed in Domino Directory\n`), // prettier-ignore
    want: [['anna@example.org', 'hard_bounce', 'user-unknown-report-words']],
  },
  {
    name: 'sendmail without a diagnostic: the transcript says why',
    mail: dsn(
      `${perMessage}Final-Recipient: RFC822; anna@example.org\nAction: failed\nStatus: 5.0.0\n`,
      '   ----- The following addresses had permanent fatal errors -----\n<anna@example.org>\n\n   ----- Transcript of session follows -----\n... while talking to mx.example.org.:\n>>> RCPT To:<anna@example.org>\n<<< 550 <anna@example.org>: User unknown\n',
    ),
    want: [['anna@example.org', 'hard_bounce', 'user-unknown-words']],
  },
  {
    name: 'qmail',
    mail: `${daemon('failure notice')}\nHi. This is the qmail-send program at mx.example.net.\nI'm afraid I wasn't able to deliver your message to the following addresses.\nThis is a permanent error; I've given up. Sorry it didn't work out.\n\n<anna@example.org>:\n192.0.2.1 does not like recipient.\nRemote host said: 550 5.1.1 <anna@example.org>... User unknown\nGiving up on 192.0.2.1.\n\n<ben@example.org>:\nSorry, no mailbox here by that name. (#5.1.1)\n\n<cleo@example.org>:\nuser is over quota. (#5.2.2)\n\n<dora@example.org>:\n192.0.2.1 failed after I sent the message.\nRemote host said: 554 spam refused\n\n--- Below this line is a copy of the message.\n\n${original}`,
    want: [
      ['anna@example.org', 'hard_bounce', 'bad-mailbox-code'],
      ['ben@example.org', 'hard_bounce', 'bad-mailbox-code'],
      ['cleo@example.org', 'soft_bounce', 'mailbox-full-code'],
      ['dora@example.org', 'soft_bounce', 'policy-words'],
    ],
  },
  {
    name: 'qmail, given up waiting',
    mail: `${daemon('failure notice')}\nHi. This is the qmail-send program at mx.example.net.\n\n<anna@example.org>:\nSorry, I wasn't able to establish an SMTP connection. (#4.4.1)\nI'm not going to try again; this message has been in the queue too long.\n\n--- Below this line is a copy of the message.\n\n${original}`,
    want: [['anna@example.org', 'soft_bounce', 'temporary-reply']],
  },
  {
    name: 'Exim',
    mail: `${daemon('Mail delivery failed: returning message to sender', 'X-Failed-Recipients: anna@example.org\nAuto-Submitted: auto-replied\n')}\nThis message was created automatically by mail delivery software.\n\nA message that you sent could not be delivered to one or more of its\nrecipients. This is a permanent error. The following address(es) failed:\n\n  anna@example.org\n    host mx.example.org [192.0.2.1]\n    SMTP error from remote mail server after RCPT TO:<anna@example.org>:\n    550 5.1.1 <anna@example.org>: Recipient address rejected: User unknown\n\n------ This is a copy of the message, including all the headers. ------\n\n${original}`,
    want: [['anna@example.org', 'hard_bounce', 'bad-mailbox-code']],
  },
  {
    name: 'Exim, after the content',
    mail: `${daemon('Mail delivery failed: returning message to sender', 'X-Failed-Recipients: anna@example.org\n')}\nThis message was created automatically by mail delivery software.\n\nThe following address(es) failed:\n\n  anna@example.org\n    SMTP error from remote mail server after end of data:\n    550 no such user here\n\n------ This is a copy of your message, including all the headers. ------\n\n${original}`,
    want: [['anna@example.org', 'soft_bounce', 'user-unknown-after-data']],
  },
  {
    name: 'Exim, its own finding',
    mail: `${daemon('Mail delivery failed: returning message to sender')}\nThis message was created automatically by mail delivery software.\n\nThe following address(es) failed:\n\n  anna@example.org\n    Unrouteable address\n\n------ This is a copy of the message's headers. ------\n\n${original}`,
    want: [['anna@example.org', 'hard_bounce', 'exim-unrouteable-report']],
  },
  {
    name: 'Exim, its own finding, in a report without a diagnostic',
    mail: dsn(`${perMessage}Action: failed\nFinal-Recipient: rfc822;anna@example.org\nStatus: 5.0.0\n`, 'A message that you sent could not be delivered to one or more of its\nrecipients. This is a permanent error. The following address(es) failed:\n\n  anna@example.org\n    Unrouteable address'), // prettier-ignore
    want: [['anna@example.org', 'hard_bounce', 'exim-unrouteable-report']],
  },
  {
    name: 'Exim, its own finding about an international address, which it writes in octal among its words',
    mail: dsn(`${perMessage}Original-Recipient: utf-8;Änna@example.org\nAction: failed\nFinal-Recipient: rfc822;Änna@example.org\nStatus: 5.0.0\n`, 'The following address(es) failed:\n\n  \\303\\204nna@example.org\n    Unrouteable address', 'message/global-delivery-status', '8bit'), // prettier-ignore
    want: [['Änna@example.org', 'hard_bounce', 'exim-unrouteable-report']],
  },
  {
    name: 'Exim, still trying',
    mail: `${daemon('Warning: message 1Abcde-000123-AB delayed 24 hours')}\nThis message was created automatically by mail delivery software.\nA message that you sent has not yet been delivered to one or more of its\nrecipients after more than 24 hours on the queue.\n\nThe address to which the message has not yet been delivered is:\n\n  anna@example.org\n    Delay reason: 550 odd\n\nNo action is required on your part. Delivery attempts will continue.\n`,
    want: [['anna@example.org', 'soft_bounce', 'report-delayed']],
  },
  {
    name: 'sendmail 5',
    mail: `${daemon('Returned mail: User unknown')}\n   ----- Transcript of session follows -----\nWhile talking to mx.example.org:\n>>> RCPT To:<anna@example.org>\n<<< 550 <anna@example.org>, User Unknown\n550 <anna@example.org>... User unknown\n\n   ----- Unsent message follows -----\n${original}`,
    want: [[undefined, 'hard_bounce', 'user-unknown-words']],
  },
  {
    name: 'Gmail, as it used to write',
    mail: `From: Mail Delivery Subsystem <mailer-daemon@googlemail.com>\nTo: sender@shop.example\nSubject: Delivery Status Notification (Failure)\n\nDelivery to the following recipient failed permanently:\n\n     anna@example.org\n\nTechnical details of permanent failure: \nGoogle tried to deliver your message, but it was rejected by the recipient domain. The error that the other server returned was: 550 550 5.1.1 <anna@example.org>: user unknown (state 14).\n\n   ----- Original message -----\n\n${original}`,
    want: [['anna@example.org', 'hard_bounce', 'bad-mailbox-code']],
  },
  {
    name: 'Exchange 2003',
    mail: `From: System Administrator <postmaster@example.org>\nTo: sender@shop.example\nSubject: Undeliverable: hello\n\nYour message did not reach some or all of the intended recipients.\n\n      Subject:\thello\n      Sent:\t21/11/2026 05:00\n\nThe following recipient(s) could not be reached:\n\n      anna@example.org on 21/11/2026 05:00\n            The e-mail account does not exist at the organization this message was sent to.  Check the e-mail address.\n            < mx.example.org #5.1.1>\n`,
    want: [['anna@example.org', 'hard_bounce', 'bad-mailbox-code']],
  },
  {
    name: 'Exchange 5.5',
    mail: `From: System Administrator <postmaster@example.org>\nTo: sender@shop.example\nSubject: Undeliverable: hello\n\nYour message\n\n  To:      anna@example.org\n  Subject: hello\n\ndid not reach the following recipient(s):\n\nanna@example.org on Sat, 21 Nov 2026 05:00:00 -0000\n    The recipient name is not recognized\n\tThe MTS-ID of the original message is: c=us;a= ;p=example\n    MSEXCH:IMS:Example:SITE:MAIL 0 (000C05A6) Unknown Recipient\n`,
    want: [['anna@example.org', 'hard_bounce', 'user-unknown-report-words']],
  },
  {
    name: 'Notes',
    mail: `${daemon('Undeliverable message')}\n------- Failure Reasons  --------\n\nUser not listed in public Name & Address Book\nanna@example.org\n\n------- Returned Message --------\n\n${original}`,
    want: [['anna@example.org', 'hard_bounce', 'user-unknown-report-words']],
  },
  {
    name: 'iPlanet',
    mail: `${daemon('Delivery Notification: Delivery has failed')}\nThis report relates to a message you sent with the following header fields:\n\n  Message-id: <1@shop.example>\n  To: anna@example.org\n\nYour message cannot be delivered to the following recipients:\n\n  Recipient address: anna@example.org\n  Reason: Remote SMTP server has rejected address\n  Diagnostic code: smtp;550 5.1.1 <anna@example.org>... User Unknown\n  Remote system: dns;mx.example.org (TCP|192.0.2.1|47323|192.0.2.2|25)\n`,
    want: [['anna@example.org', 'hard_bounce', 'bad-mailbox-code']],
  },
  {
    name: 'MailMarshal: the reason first, the recipient after it',
    mail: `${daemon('Undeliverable Mail: "hello"')}\nYour message:\n   From:    sender@shop.example\n\nCould not be delivered because of\n\n550 5.1.1 User unknown\n\nThe following recipients were affected:\n    anna@example.org\n\nAdditional Information\n======================\n`, // prettier-ignore
    want: [['anna@example.org', 'hard_bounce', 'bad-mailbox-code']],
  },
  {
    name: 'GroupWise',
    mail: `${daemon('Message status - undeliverable')}\nThe message that you sent was undeliverable to the following:\n\tanna@example.org (user not found)\n\nPossibly truncated original message follows:\n\n${original}`,
    want: [['anna@example.org', 'hard_bounce', 'user-unknown-report-words']],
  },
  {
    name: 'Courier',
    mail: `${daemon('NOTICE: mail delivery status.')}\nThis is a delivery status notification from mx.example.net,\nrunning the Courier mail server.\n\nThe original message was received on Sat, 21 Nov 2026 05:00:00\n\n                           UNDELIVERABLE MAIL\n\nYour message to the following recipients cannot be delivered:\n\n<anna@example.org>:\n    mx.example.org [192.0.2.1]:\n>>> RCPT TO:<anna@example.org>\n<<< 550 User unknown.\n`,
    want: [['anna@example.org', 'hard_bounce', 'user-unknown-words']],
  },
  {
    name: 'KDDI',
    mail: `From: <Postmaster@mobile.example>\nTo: sender@shop.example\nSubject: Mail System Error - Returned Mail\n\nThe user(s) account is disabled.\n\n<anna@mobile.example>: 550 user unknown (in reply to RCPT TO command)\n`,
    want: [['anna@mobile.example', 'hard_bounce', 'user-unknown-words']],
  },
  {
    name: 'Zoho, its codes between commas',
    mail: `${daemon('Undelivered Mail Returned to Sender')}\nThis message was created automatically by mail delivery software.\nA message that you sent could not be delivered to one or more of its recipients. This is a permanent error. \n\nanna@example.org Invalid Address, ERROR_CODE :550, ERROR_CODE :Requested action not taken: mailbox unavailable\n\n\n${original}`,
    want: [['anna@example.org', 'hard_bounce', 'mailbox-unavailable-words']],
  },
  {
    name: 'words that no rule knows',
    mail: `${daemon('Undelivered Mail Returned to Sender')}\nYour message could not be delivered.\n\n<anna@example.org>: it did not work out\n`,
    want: [['anna@example.org', 'soft_bounce', 'no-rule']],
  },
  // A helpdesk that acknowledges a mail and quotes it: the words that would condemn the recipient are our own customer's.
  ...['You wrote:', 'anna@example.org wrote:'].map((introduced) => ({
    name: `an acknowledgement that quotes, behind "${introduced}"`,
    mail: `From: Helpdesk <noreply@desk.example>\nSubject: [Ticket 4711] Undelivered order: customer account not found\nAuto-Submitted: auto-generated\nReturn-Path: <>\n\nThank you for contacting us. We have received your request.\n\n${introduced}\n> Order 1234 could not be delivered: the customer account was not found.\n`,
    want: [[introduced.startsWith('anna') ? 'anna@example.org' : undefined, 'soft_bounce', 'no-rule']] as const,
  })),
  {
    name: 'words that would condemn somebody, and name nobody',
    mail: `${daemon('Undeliverable mail')}\nYour mail could not be delivered: no such user here.\n`,
    want: [[undefined, 'soft_bounce', 'no-rule']],
  },
  {
    name: 'a notice in HTML alone',
    mail: `${daemon('Undeliverable: hello', 'Content-Type: text/html; charset=utf-8\n')}\n<html><body><p>Delivery has failed to these recipients:</p><p>&lt;anna@example.org&gt;</p><p>550 5.1.1 user unknown</p></body></html>\n`,
    want: [['anna@example.org', 'hard_bounce', 'bad-mailbox-code']],
  },
]

const reportOf = (type: string): string =>
  `From: Feedback <fbl@example.net>\nTo: fbl@shop.example\nSubject: FW: hello\nContent-Type: multipart/report; boundary=b\n\n--b\nContent-Type: text/plain\n\nThis is an email abuse report.\n\n--b\nContent-Type: message/feedback-report\n\nFeedback-Type: ${type}\nUser-Agent: SomeGenerator/1.0\nVersion: 1\nOriginal-Rcpt-To: <anna@example.org>\n\n--b\nContent-Type: message/rfc822\n\n${original}\n--b--\n`

/** Feedback-Type, and whether it is a complaint. */
export const complaints: readonly (readonly [mail: string, complaint: boolean])[] = [
  [reportOf('abuse'), true],
  [reportOf('Fraud (phishing)'), true],
  [reportOf('not-spam'), false],
  [reportOf('auth-failure'), false],
  [reportOf('opt-out'), false],
  [reportOf('virus'), false],
  [
    `From: staff@hotmail.com\nSubject: complaint about message from 192.0.2.1\nContent-Type: multipart/mixed; boundary=b\n\n--b\nContent-Type: message/rfc822\n\n${original}\n--b--\n`,
    true,
  ],
  [
    // Amazon SES hands it on in the same form.
    `From: complaints@email-abuse.amazonses.com\nSubject: complaint about message from 192.0.2.1\nContent-Type: multipart/mixed; boundary=b\n\n--b\nContent-Type: message/rfc822\n\n${original}\n--b--\n`,
    true,
  ],
  [
    `From: staff@hotmail.com\nSubject: complaint about message from 192.0.2.1\nContent-Type: message/rfc822\n\n${original}`,
    true,
  ],
]

/** Mail that says nothing about delivery, whatever stands in it. */
export const noReports: readonly (readonly [kind: string, mail: string])[] = [
  ['auto_reply', 'From: Anna <anna@example.org>\nTo: sender@shop.example\nSubject: Re: hello\nAuto-Submitted: auto-replied (vacation)\nReturn-Path: <>\n\nI am away. 550 5.1.1 user unknown could not be delivered\n'], // prettier-ignore
  ['auto_reply', 'From: Anna <anna@example.org>\nSubject: Out of Office: undeliverable mail\nReturn-Path: <>\n\nThis mailbox is full of sand: <anna@example.org>: 550 5.1.1 user unknown\n'], // prettier-ignore
  ['auto_reply', 'From: Anna <Anna@example.org>\nSubject: I have left the company\nAuto-Submitted: auto-generated\n\nanna@example.org is no longer valid, mail to it cannot be delivered.\n'], // prettier-ignore
  ['auto_reply', 'From: Anna <anna@example.org>\nSubject: Auto: hello\nPrecedence: auto_reply\n\naway\n'],
  // Exchange says of those what it says of its reports, in the language of its owner; and from an address that is not the one that we wrote to.
  ...['Automatische Antwort: hello', 'Automatisch antwoord: hello', 'Autosvar: hello', 'Odpowiedź automatyczna: hello', 'Resposta automática: hello', 'Автоматический ответ: hello', '自动答复: hello', '自動返信: hello'].map((subject) => ['auto_reply', `From: "Anna" <anna.b@example.org>\nSubject: =?utf-8?B?${Buffer.from(subject).toString('base64')}?=\nAuto-Submitted: auto-generated\nReturn-Path: <>\n\nYour mail was not delivered: this mailbox is no longer valid. Please write to\nben@example.org\n`] as const), // prettier-ignore
  ['receipt', `From: Anna <anna@example.org>\nSubject: Read: hello\nContent-Type: multipart/report; report-type=disposition-notification; boundary=b\n\n--b\n\nread\n--b\nContent-Type: message/disposition-notification\n\nFinal-Recipient: rfc822; anna@example.org\nDisposition: manual-action/MDN-sent-manually; displayed\n\n--b--\n`], // prettier-ignore
  ['other', 'From: Anna <anna@example.org>\nSubject: hello\n\n<anna@example.org>: 550 5.1.1 user unknown\n'],
  ['other', 'From: Anna <anna@example.org>\nSubject: Delivery status of my parcel\n\nWhere is it?\n'],
  // Only the outermost report counts: somebody forwards one.
  ['other', `From: Anna <anna@example.org>\nSubject: Fwd: see this\nContent-Type: multipart/mixed; boundary=f\n\n--f\n\nlook\n--f\nContent-Type: message/rfc822\n\n${dsn(failed('5.1.1', '550 5.1.1 no'))}\n--f--\n`], // prettier-ignore
  ['other', ''],
  ['other', '\0\0\0'],
]
