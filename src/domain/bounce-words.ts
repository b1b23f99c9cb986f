// What mail servers say in words, for the table of bounce-rules.ts; in English, which most of them write. All patterns are for lower-case text
// with single spaces, and linear: every gap in them has a small bound.

export const words = {
  sender:
    /\bsender (address )?((is|was|has been) )?(rejected|unknown|denied|invalid|refused|not |does not|doesn't|verif)|\b(unknown|invalid|bad|unverified|unauthorized) sender|(domain|verif\w+) (of |for )?(the )?sender|\bsender's\b|\breturn (path|address)\b|\breverse[- ]path\b|\boriginator\b|\benvelope[- ](sender|from)\b|\bfrom address\b|\bmail from (address )?(is |was |does not|doesn't|not |unknown|invalid)|\binvalid dns mx\b|\b(helo|ehlo)\b|\byour (account|mailbox|domain|user) (\w+ ){0,3}(suspended|disabled|blocked|inactive|locked)/,
  relaying:
    /\brelay(ing)? (access )?(is )?(denied|not (permitted|allowed)|prohibited)|(not|unable|allowed|permitted) to relay/,
  full: /quota(?!ti)|(mail ?box|inbox|account|user)( is| was|'s mailbox is)? (\w+ )?(over ?)?full\b|\b(disk|storage|mailbox) (is )?full\b|insufficient (\w+ ){0,2}(storage|space)|(out of|not enough) (\w+ ){0,2}(storage|space)|\bno (more )?(disk |storage )?space\b|mail ?box (has )?exceed\w* (its|the) limit|exceed\w* (\w+ ){0,3}storage|storage (limit|allocation)/,
  size: /too (large|big|long)\b|\b(size|length) (limit|exceed)|exceed\w* (\w+ ){0,4}size|max\w* (\w+ ){0,2}size/,
  content:
    /\bvirus|\bmalware|\binfected\b|\battachments?\b|\bheaders?\b|\b(message|mail|body|bad|illegal|prohibited) content\b|\bcontent (was )?(rejected|refused|denied|block)|\bmime\b/,
  policy:
    /\bspam|\bunsolicited\b|\bube\b|\bjunk\b|\bdmarc\b|\bspf\b|\bdkim\b|\bauthenticat|\bunauthenticated\b|\b(black|block|deny) ?-?list|\brbl\b|\bdnsbl\b|\bblocked\b|\bbanned\b|\breputation\b|(?<!\bnot )\blisted (in|at|by|on)\b|\breverse (dns|lookup|name)|\brdns\b|\bptr\b|\bip name lookup\b|\btls\b|\bstarttls\b|\brate\b|\btoo many\b(?! hops)|\bgr[ae]y-? ?list|\bpolic(y|ies)\b|\b(access|client|connection|connections|permission|service) (was |host |address )?(denied|rejected|refused)|not accepting connections|\bprohibited\b|\bunauthori[sz]ed\b|\bnot authori[sz]ed\b/,
  passing:
    /\btemporar(y|ily)\b|\b(try|retry|resend|send)( it| (the|your|this) message)?( again)? later\b|\bplease retry\b/,
  hostNotFound:
    /\b(host|domain)( name)? (was )?(not found|unknown|does not exist|doesn't exist|invalid)|\b(unknown|invalid|no such) (host|domain)\b|\bnxdomain\b|name or service not known|\bnon-?existent (domain|hosts?)\b|\bhost or domain name not found\b|\bcouldn't find any host\b|\ball host address lookups failed permanently\b|\billegal host\/domain name\b|\bno such domain\b|\bnonexistentdomain\b/,
  unrouteable: /\bunrouteable address\b/,
  routing:
    /\bloops? back\b|\bmail (\w+ )?loop\b|\bconnection (refused|timed out|timeout)\b|\bno route to host\b|\bnetwork is unreachable\b/,
  inactive:
    /\b(account|mailbox|user|recipient|address)( \S{1,80})?( that you tried to reach)?( is| was| has been| currently| has| been){0,3} (disabled|inactive|deactivated|suspended|discontinued)\b|\b(disabled|inactive|suspended|deactivated) (account|mailbox|user|recipient)\b/,
  userUnknown:
    /\b(user|recipient|mailbox|account|address|addressee)( name)?( \S{1,80})?( is| was){0,1} (unknown|not found|not known|not recogni[sz]ed|nonexistent|non-existent|not exist)\b|\bunknown (or invalid )?(virtual )?(user|recipient|mailbox|account|address|e-?mail address|local[ -]part)\b|\bno such (user|recipient|mailbox|account|address|person|local user|virtual user)\b|(?<!\b(domain|host|hostname|server|client|record)( name)? )\b(does not|doesn't|doesnt|did not) exist\b|\brecipient (address )?not found\b|\bno (mailbox|user|account) (here )?by (that|this) name\b|\binvalid (recipient|mailbox|user)\b|\b(recipient|mailbox|user)( address)? (is )?invalid\b|\bnon-?existent (user|recipient|mailbox|account|address)\b|\bnot (a|an) (valid|known|existing) (recipient|mailbox|user|address|account)\b|\bno longer (on (this )?server|exists?|valid)\b|\bnot listed in\b.{0,40}\b(directory|address book)\b|\bthere is no (one|user|mailbox) (at|with|by) this\b|\b(user|mailbox|recipient|account) not (present|here)\b|\bdoes not have an? \S{0,80} ?account\b/,
} as const

/** Lists whose names are vetoes, as they stand in host names and URLs. */
export const listOperators =
  /spamhaus|spamcop|barracudacentral|sorbs\.net|uceprotect|dnsbl|\brbl\.|invaluement|spamrats|proofpoint\.com\/ipcheck/
