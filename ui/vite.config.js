import { svelte } from '@sveltejs/vite-plugin-svelte'
import { defineConfig } from 'vite'

// Build in this folder (`npm --prefix ui run build`): names in the output depend on the path.
export default defineConfig({
  plugins: [svelte()],
  base: './',
  build: {
    outDir: '../src/rota/node/web/files',
    emptyOutDir: true,
    sourcemap: false,
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
  },
  worker: { format: 'es' },
})
