// What was read from the service, for the whole page.
import { QueryClient } from '@tanstack/react-query'
import { ApiError } from './api.ts'

export const client = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 5_000,
      // A no is an answer; only silence is asked again.
      retry: (failures, error) => failures < 2 && !(error instanceof ApiError && error.status < 500),
    },
  },
})
