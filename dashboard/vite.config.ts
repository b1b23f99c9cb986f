// Builds the dashboard: hashed files that the role `api` serves under a strict policy. Nothing inline, nothing from elsewhere.
import tailwind from '@tailwindcss/vite'
import react from '@vitejs/plugin-react'
import { defineConfig } from 'vite'

export default defineConfig({
  plugins: [react(), tailwind()],
  build: {
    target: 'es2022',
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    chunkSizeWarningLimit: 700,
  },
  // For people who work on it: `npx vite` beside a running service.
  server: { proxy: { '/api': 'http://localhost:3000', '/docs': 'http://localhost:3000' } },
})
