// Receivers of webhooks to copy: those of docs/webhooks.md, which a member of a workspace does not have; a test holds them equal to it.
import node from '../receivers/node.txt?raw'
import php from '../receivers/php.txt?raw'
import python from '../receivers/python.txt?raw'
import { Snippets } from '../ui/copy.tsx'

const receivers = { Node: node.trimEnd(), Python: python.trimEnd(), PHP: php.trimEnd() } as const

export const Receivers = () => <Snippets texts={receivers} />
