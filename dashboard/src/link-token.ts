// The token of a link in a mail. It stands behind `#`, which browsers tell to no server, and stays there: the page's address never carries it
// where a reload would write it into logs. Some mail programs lose what is behind `#`, so `?token=` is read, too.

export function tokenInLink({ hash, search }: Pick<Location, 'hash' | 'search'>): string {
  const given = [hash.slice(1), search].map((text) => new URLSearchParams(text).get('token'))
  return given.find((token) => token !== null) ?? ''
}

/** Said where there is none: the mail program, or whoever copied the link, has left out its end. */
export const linkIsCut = 'The end of this link is missing. Open it from the mail once more, or copy all of it.'
