// Receivers of webhooks to copy: those of docs/webhooks.md, which a member of a workspace does not have; a test holds them equal to it.
import { useState } from 'react'
import node from '../receivers/node.txt?raw'
import php from '../receivers/php.txt?raw'
import python from '../receivers/python.txt?raw'
import { Snippet } from '../ui/copy.tsx'
import { Tabs } from '../ui/tabs.tsx'

const receivers = { Node: node.trimEnd(), Python: python.trimEnd(), PHP: php.trimEnd() } as const

export function Receivers() {
  const [language, choose] = useState<keyof typeof receivers>('Node')
  return (
    <div className="grid gap-2">
      <Tabs
        label="Language"
        names={Object.keys(receivers) as (keyof typeof receivers)[]}
        chosen={language}
        choose={choose}
      />
      <Snippet text={receivers[language]} label={language} />
    </div>
  )
}
