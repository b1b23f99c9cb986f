// What mail servers say in words, for the table of bounce-rules.ts; in English, which most of them write, but that a mailbox is full also in others. All patterns are for lower-case text
// with single spaces, and linear: every gap in them has a small bound.

export const words = {
  sender:
    /\b(sender|return[- ]path|your (?=\S{0,6} ?(domain|mailbox|account|user|address)\b))( ?(e-?mail|mail|domain|mailbox|account|user|host|callback)){0,2}( ?address)? ((is|was|has been) )?(rejected|unknown|denied|invalid|refused|not |does not|doesn't|verif)|\b(unknown|invalid|bad|unverified|unauthorized) sender|(domain|verif\w+) (of |for )?(the )?sender|\bsender's\b|\breturn (path|address)\b|\breverse[- ]path\b|\boriginator\b|\benvelope[- ](sender|from)\b|\bfrom address\b|\bmail from (address )?(is |was |does not|doesn't|not |unknown|invalid)|\binvalid dns mx\b|\b(helo|ehlo)\b|\byour (account|mailbox|domain|user) (\w+ ){0,3}(suspended|disabled|blocked|inactive|not active|locked|closed|expired)/,
  relaying:
    /\brelay(ing)? (access )?(is )?(denied|not (permitted|allowed)|prohibited)|(not|unable|allowed|permitted) to relay/,
  full: /quota(?!ti)|(mail ?box|mail ?folder|inbox|account|user)( is| was|'s mailbox is)? (\w+ )?(over ?)?full\b|\bfull (mail ?box|inbox)\b|\b(disk|storage|mailbox) (is )?full\b|insufficient (\w+ ){0,2}(storage|space)|(out of|not (have )?enough) (\w+ ){0,2}(storage|space)|\bspace (\w+ ){0,3}(used up|not enough)\b|\btoo much mail data\b|\bno (more )?(disk |storage )?space\b|(mail ?box|inbox) (has |is )?(exceed\w*|reached|at|over) (its|the) (\w+ ){0,3}limit|exceed\w* (\w+ ){0,3}storage|storage (limit|allocation)/,
  /** Some write 5.1.1 before it. Letters with marks may come in any charset: no word boundary is asked for beside them. */
  fullElsewhere:
    /\b(postfach|mailbox|posteingang)( \S{1,40}){0,4} (voll|.{1,4}berf.{1,4}llt)\b|\bspeicherplatz( \S{1,40}){0,4} (voll|ersch.{1,4}pft)\b|\bbo\S{1,4}te( \S{1,40}){0,6} (pleine|satur\S{1,4})(?!\w)|\b(espace|espacio|espa\S{1,4}o|spazio)( \S{1,40}){0,4} (insuffisant|insuficiente|insufficiente|esaurito)\b|\b(buz\S{1,4}n|casilla|bandeja)( \S{1,40}){0,6} llen[oa]\b|\bcaixa( \S{1,40}){0,6} (cheia|lotada)\b|\b(cuota|cota)( \S{1,40}){0,3} (excedida|superada|esgotada)\b|\bcasella( \S{1,40}){0,6} piena\b|\b(postvak|postbus|mailbox)( \S{1,40}){0,4} vol\b|\bskrzynk\S{1,4}( \S{1,40}){0,4} (pe\S{1,4}na|przepe\S{1,4}niona)(?!\w)|\bschr\S{1,4}nka( \S{1,40}){0,4} (pln\S{1,4}|zapln\S{2,8})(?!\w)|\bposta kutusu( \S{1,40}){0,3} dolu\b|ящик( \S{1,40}){0,4} (переполнен|заполнен|полон)|переполнен( \S{1,40}){0,2} ящик|квот[аыу]|[邮郵信]箱.{0,12}([满滿]|空[间間]不足|超[过過出]|容量)|(メールボックス|受信箱|受信トレイ).{0,20}(満杯|いっぱい|一杯|超過|超え|オーバー)|(메일함|편지함|사서함).{0,20}(가득|초과|부족)/,
  size: /too (large|big|long)\b|\b(size|length) (limit|exceed)|exceed\w* (\w+ ){0,4}size|max\w* (\w+ ){0,2}size/,
  content:
    /\bvirus|\bmalware|\binfected\b|\battachments?\b|\bheaders?\b|\b(message|mail|body|bad|illegal|prohibited) content\b|\bcontent (was )?(rejected|refused|denied|block|filter)|\bmime\b/,
  policy:
    /\bspam|\bunsolicited\b|\bube\b|\bjunk\b|\bdmarc\b|\bspf\b|\bdkim\b|\bauthenticat|\bunauthenticated\b|\b(black|block|deny) ?-?list|\brbl\b|\bdnsbl\b|\bblocked\b|\bbanned\b|\breputation\b|(?<!\bnot )\blisted (in|at|by|on)\b|\breverse (dns|lookup|name)|\brdns\b|\bptr\b|\bip name lookup\b|\btls\b|\bstarttls\b|\brate\b|\btoo many\b(?! hops)|\bgr[ae]y-? ?list|\bpolic(y|ies)\b|\b(access|client|connection|connections|permission|service) (was |host |address )?(denied|rejected|refused)|not accepting connections|\bprohibited\b|\bunauthori[sz]ed\b|\bnot authori[sz]ed\b/,
  passing:
    /\btemporar(y|i?ly)\b|(?<!\bhop )\blimit (is |was |has been )?(reached|exc?eeded)\b|\bexceed\w* (\w+ ){0,4}limits?\b|\b(try|retry|resend|send)( it| (the|your|this) message)?( again)? later\b|\bplease retry\b/,
  hostNotFound:
    /\b(host|domain)( name)? (was )?(not found|unknown|does not exist|doesn't exist|invalid)|\b(unknown|invalid|no such) (host|domain)\b|\bnxdomain\b|name or service not known|\bnon-?existent (domain|hosts?)\b|\bhost or domain name not found\b|\bcouldn't find any host\b|\ball host address lookups failed permanently\b|\billegal host\/domain name\b|\bno such domain\b|\bnonexistentdomain\b/,
  unrouteable: /\bunrouteable address\b/,
  routing:
    /\bloops? back\b|\bhost or domain name not found\b|\bmail (\w+ )?loop\b|\bconnection (refused|timed out|timeout)\b|\bno route to host\b|\bnetwork is unreachable\b/,
  inactive:
    /\b(account|mailbox|user|recipient|address)( \S{1,80})?( that you tried to reach)?( is| was| has been| currently| has| been){0,3} (disabled|inactive|deactivated|suspended|discontinued)\b|\b(account|mailbox)( is| was| has| has been)? (closed|expired|not active|not activated)\b|\b(disabled|inactive|suspended|deactivated) (account|mailbox|user|recipient)\b/,
  userUnknown:
    /\b(user|recipient|mailbox|account|address|addressee)( name)?( \S{1,80}){0,2}( is| was){0,1} (unknown|not found|not known|not recogni[sz]ed|unrecogni[sz]ed|nonexistent|non-existent|not exist)\b|\bunknown (or (invalid|illegal) )?(virtual )?(user|recipient|mailbox|account|address|e-?mail address|local[ -]part)\b|\bno such (user|recipient|mailbox|account|address|person|local user|virtual user)\b|(?<!\b(domain|host|hostname|server|client|record)( name)? )\b(does not|doesn't|doesnt|did not) exist\b|\brecipient (address )?not found\b|\bno (mailbox|user|account) (here )?by (that|this) name\b|\binvalid (recipient|mailbox|user)\b|\b(recipient|mailbox|user)( address)? (is )?invalid\b|\bnon-?existent (user|recipient|mailbox|account|address)\b|\bnot (a|an) (valid|known|existing) (recipient|mailbox|user|address|account)\b|\bnot (a )?user (of|on|at) this (server|system|host)\b|\bno longer (on (this )?server|exists?|valid)\b|\bnot listed in\b.{0,40}\b(directory|address book)\b|\bthere is no (one|user|mailbox) (at|with|by) this\b|\b(user|mailbox|recipient|account) not (present|here)\b|\bdoes not have an? \S{0,80} ?account\b|\bdoes no exists?\b|\bunavailable mail user\b/,
} as const

/** Lists whose names are vetoes, as they stand in host names and URLs. */
export const listOperators =
  /spamhaus|spamcop|barracudacentral|sorbs\.net|uceprotect|dnsbl|\brbl\.|invaluement|spamrats|proofpoint\.com\/ipcheck/
