// Where the shipped plans' `upgradeUrl` leads: plans are given by whoever runs the installation, so this says whom to ask, and for what.
import { Link } from '@tanstack/react-router'
import { useRead } from '../api.ts'
import { useLooking, useWorkspace } from '../session.tsx'
import type { Usage } from '../shapes.ts'
import { Id } from '../ui/copy.tsx'
import { Card, Page } from '../ui/page.tsx'
import { Answered } from '../ui/states.tsx'
import { Quota } from './quota.tsx'

export function UpgradePage() {
  const { session } = useLooking()
  const { workspaceId } = useWorkspace()
  const usage = useRead<Usage>(['usage'], '/api/v1/usage')
  return (
    <Page title="Another plan" about="The plan of a workspace says how much it may send.">
      <div className="grid items-start gap-6 lg:grid-cols-2">
        <Card title="The plan now">
          <Answered query={usage}>{(data) => <Quota usage={data} isLinked={false} />}</Answered>
        </Card>
        <Card title="How to get another">
          {session.operator ? (
            <p className="text-sm">
              You run this installation:{' '}
              <Link to="/operator/workspaces" className="text-accent underline">
                give the workspace another plan
              </Link>
              .
            </p>
          ) : (
            <div className="grid gap-2 text-sm">
              <p>Plans are given by whoever runs this Posthorn. Ask them, and say which workspace it is:</p>
              <Id id={workspaceId} />
            </div>
          )}
        </Card>
      </div>
    </Page>
  )
}
